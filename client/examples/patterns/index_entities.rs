//! Index entities: entities that list the entities with a certain property value.
//!
//! An index on a last name that many employees share has two possible designs: one entity with a list of employee
//! numbers, or a small entity for each employee whose row key starts with the name. Reading the list takes one get, but
//! every change requires a read and a conditional write. Concurrent changes conflict, and the list is limited to 64
//! KiB. Small entities have none of these limitations, so prefer them.

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::{Entity, ErrorKind, Table, Transaction};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "id_{id:06}")]
struct Employee {
    #[entity(partition_key)]
    department: String,
    id: u32,
    last_name: String,
}

/// All employees with a name, as one list.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "list_{last_name}")]
struct NameList {
    #[entity(partition_key)]
    department: String,
    last_name: String,
    /// Employee numbers, separated by spaces.
    ids: String,
}

/// One employee with a name.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "name_{last_name}_{id:06}")]
struct NameEntry {
    #[entity(partition_key)]
    department: String,
    last_name: String,
    id: u32,
}

/// Hires an employee with the list, which is read and written on the condition that it has not changed.
async fn hire_with_list(employees: &Table, employee: &Employee) -> Result {
    loop {
        let key = NameList::key_of(&employee.department, &employee.last_name)?;
        let known = employees.find::<NameList>(key.partition.as_str(), key.row.as_str()).await?;
        let transaction = Transaction::new().insert(employee);
        let transaction = match known {
            None => transaction.insert(&NameList {
                department: employee.department.clone(),
                last_name: employee.last_name.clone(),
                ids: employee.id.to_string(),
            }),
            Some(mut list) => {
                list.ids = format!("{} {}", list.ids, employee.id);
                transaction.replace(&list, &list)
            }
        };
        match employees.commit(transaction).await {
            // Another client has changed the list, which is the second operation.
            Err(error) if error.kind() == ErrorKind::PreconditionFailed => {}
            Err(error) if error.kind() == ErrorKind::Conflict && error.operation_index() == Some(1) => {}
            result => return Ok(result.map(drop)?),
        }
    }
}

/// Hires an employee with a separate index entity, which requires no read and causes no conflicts.
async fn hire_with_entry(employees: &Table, employee: &Employee) -> Result {
    let Employee { department, id, last_name } = employee.clone();
    let entry = NameEntry { department, last_name, id };
    employees.commit(Transaction::new().insert(employee).insert(&entry)).await?;
    Ok(())
}

async fn get_all(employees: &Table, ids: impl IntoIterator<Item = u32>) -> Result<usize> {
    let mut found = 0;
    for id in ids {
        employees.get_by_key::<Employee>(&Employee::key_of("sales", id)?).await?;
        found += 1;
    }
    Ok(found)
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("index_entities").await?;
    let employees = pattern.table("employees").await?;
    let names = ["Abel", "Bach", "Curie", "Jones"].into_iter().cycle();
    let employee = |(id, name): (u32, &str)| Employee { department: "sales".into(), id, last_name: name.into() };
    let all: Vec<Employee> = (1..=40).zip(names).map(employee).collect();
    fill(&employees, &all).await?;
    let jones: Vec<u32> = all.iter().filter(|e| e.last_name == "Jones").map(|e| e.id).collect();
    let entry = |id: &u32| NameEntry { department: "sales".into(), last_name: "Jones".into(), id: *id };
    fill(&employees, &jones.iter().map(entry).collect::<Vec<_>>()).await?;
    let ids = jones.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    employees.insert(&NameList { department: "sales".into(), last_name: "Jones".into(), ids }).await?;

    let scan = employees.query::<Employee>().partition("sales").row_prefix("id_").filter(|e| e.last_name.eq("Jones"));
    let cost = requests(1).examined(40).returned(10);
    pattern.step("find all with a name, without an index", cost, scan.collect()).await?;

    let by_list = async {
        let list = employees.get::<NameList>("sales", "list_Jones").await?;
        get_all(&employees, list.ids.split(' ').map(str::parse).collect::<std::result::Result<Vec<_>, _>>()?).await
    };
    let cost = requests(11).examined(11).returned(11);
    assert_eq!(pattern.step("find them with the list, and get each", cost, by_list).await?, 10);

    let entries = employees.query::<NameEntry>().partition("sales").row_prefix("name_Jones_").select(|e| e.row_key);
    let cost = requests(1).examined(10).returned(10);
    let keys = pattern.step("find their numbers with the entries", cost, entries.collect()).await?;
    assert_eq!(keys.first().map(String::as_str), Some("name_Jones_000004"));

    let new = employee((41, "Jones"));
    let cost = requests(2).examined(1).returned(1).written(2);
    pattern.step("hire an employee, with the list", cost, hire_with_list(&employees, &new)).await?;
    let new = employee((42, "Jones"));
    pattern.step("hire an employee, with an entry", requests(1).written(2), hire_with_entry(&employees, &new)).await?;

    pattern.finish().await
}
