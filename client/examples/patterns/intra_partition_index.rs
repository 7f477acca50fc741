//! Intra-partition secondary index: each entity is stored twice in one partition, with two row keys.
//!
//! A table is sorted only by its keys, and a query with a filter on any other property examines every entity in the
//! range. An employee is therefore stored as `id_000123` and as `email_ann@example.com`, each time with all properties.
//! Both copies are in the same partition, so a transaction keeps them equal and guarantees that the second key is
//! unique.

use crate::support::{Pattern, Result, fill, refused, requests};
use rowhouse_client::{Entity, ErrorKind, IfMatch, Table, Transaction};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "id_{id:06}")]
struct Employee {
    #[entity(partition_key)]
    department: String,
    id: u32,
    email: String,
    name: String,
}

/// The copy of an employee, sorted by e-mail address.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "email_{email}")]
struct EmployeeByEmail {
    #[entity(partition_key)]
    department: String,
    email: String,
    id: i64,
    name: String,
}

impl From<&Employee> for EmployeeByEmail {
    fn from(employee: &Employee) -> Self {
        let Employee { department, id, email, name } = employee.clone();
        Self { department, email, id: id.into(), name }
    }
}

fn employee(id: u32, name: &str) -> Employee {
    let email = format!("{}{id}@example.com", name.to_lowercase());
    Employee { department: "sales".to_owned(), id, email, name: name.to_owned() }
}

fn hiring(employee: &Employee) -> Transaction {
    Transaction::new().insert(employee).insert(&EmployeeByEmail::from(employee))
}

async fn change_email(employees: &Table, id: u32, email: &str) -> Result {
    let old = employees.get_by_key::<Employee>(&Employee::key_of("sales", id)?).await?;
    let new = Employee { email: email.to_owned(), ..old.entity.clone() };
    let moved = EmployeeByEmail::key_of("sales", &old.email)?;
    let change = Transaction::new()
        .replace(&new, &old)
        .delete(moved.partition.as_str(), moved.row.as_str(), IfMatch::Any)
        .insert(&EmployeeByEmail::from(&new));
    employees.commit(change).await?;
    Ok(())
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("intra_partition_index").await?;
    let employees = pattern.table("employees").await?;
    let names = ["Ann", "Bob", "Cem", "Dot"].into_iter().cycle();
    let all: Vec<Employee> = (1..=200).zip(names).map(|(id, name)| employee(id, name)).collect();
    let by_email: Vec<EmployeeByEmail> = all.iter().map(EmployeeByEmail::from).collect();

    let hired = async {
        fill(&employees, &all).await?;
        fill(&employees, &by_email).await
    };
    pattern.step("hire 200 employees, in transactions of 100", requests(4).written(400), hired).await?;

    let ann = Employee::key_of("sales", 121)?;
    let found = employees.get_by_key::<Employee>(&ann);
    let ann = pattern.step("find an employee by number", requests(1).examined(1).returned(1), found).await?;

    let scan = employees.query::<Employee>().partition("sales").row_prefix("id_").filter(|e| e.email.eq(&ann.email));
    let cost = requests(1).examined(200).returned(1);
    let scanned = pattern.step("find her by e-mail address, without the index", cost, scan.collect()).await?;
    assert_eq!(scanned.first(), Some(&ann));

    let key = EmployeeByEmail::key_of("sales", &ann.email)?;
    let found = employees.get_by_key::<EmployeeByEmail>(&key);
    let indexed = pattern.step("find her by e-mail address", requests(1).examined(1).returned(1), found).await?;
    assert_eq!(indexed.entity, EmployeeByEmail::from(&ann.entity));

    let list = employees.query::<EmployeeByEmail>().partition("sales").row_prefix("email_bob1").collect();
    let cost = requests(1).examined(28).returned(28);
    let bobs = pattern.step("list the addresses that start with bob1, in order", cost, list).await?;
    assert!(bobs.is_sorted_by_key(|bob| bob.email.clone()));

    let changed = change_email(&employees, 121, "ann.b@example.com");
    pattern.step("change an address", requests(2).examined(1).returned(1).written(3), changed).await?;

    let twin = Employee { email: "ann.b@example.com".to_owned(), ..employee(201, "Ann") };
    let hired = refused(employees.commit(hiring(&twin)));
    let error = pattern.step("hire an employee with an address in use", requests(1), hired).await?;
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::Conflict, Some(1)));
    assert_eq!(employees.find::<Employee>("sales", "id_000201").await?, None, "the transaction had no effect");

    pattern.finish().await
}
