//! Denormalization: store together what is read together.
//!
//! A page about a department shows its manager. If the department contains only the manager's number, this takes two
//! consecutive gets. If it contains a copy of the displayed properties, one get is enough. Both entities are in the
//! same partition, so a transaction updates the original and the copy together.

use crate::support::{Pattern, Result, requests};
use rowhouse_client::{Entity, IfMatch, Table, Transaction};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "employee_{id:06}")]
struct Employee {
    #[entity(partition_key)]
    department: String,
    id: u32,
    name: String,
    phone: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "department")]
struct Department {
    #[entity(partition_key)]
    name: String,
    floor: i32,
    manager: i64,
    manager_name: String,
    manager_phone: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "employee_{id:06}")]
struct EmployeePhone {
    #[entity(partition_key)]
    department: String,
    id: u32,
    phone: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "department")]
struct ManagerCopy {
    #[entity(partition_key)]
    department: String,
    manager_phone: String,
}

async fn change_phone(company: &Table, department: &str, id: u32, phone: &str) -> Result {
    // A merge preserves concurrent changes of other properties.
    let changed = EmployeePhone { department: department.to_owned(), id, phone: phone.to_owned() };
    let copy = ManagerCopy { department: department.to_owned(), manager_phone: phone.to_owned() };
    company.commit(Transaction::new().merge(&changed, IfMatch::Any).merge(&copy, IfMatch::Any)).await?;
    Ok(())
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("denormalization").await?;
    let company = pattern.table("company").await?;
    let manager = Employee { department: "sales".into(), id: 7, name: "Ada".into(), phone: "100".into() };
    let department = Department {
        name: "sales".into(),
        floor: 3,
        manager: 7,
        manager_name: manager.name.clone(),
        manager_phone: manager.phone.clone(),
    };
    let written = company.commit(Transaction::new().insert(&manager).insert(&department));
    pattern.step("write department and manager", requests(1).written(2), written).await?;

    let joined = async {
        let department = company.get::<Department>("sales", "department").await?;
        let manager = Employee::key_of("sales", u32::try_from(department.manager)?)?;
        Ok::<_, Box<dyn std::error::Error>>(company.get_by_key::<Employee>(&manager).await?.phone.clone())
    };
    let cost = requests(2).examined(2).returned(2);
    assert_eq!(pattern.step("show a department, with the number of its manager", cost, joined).await?, "100");

    let cost = requests(1).examined(1).returned(1);
    let shown = pattern
        .step("show a department, with the copy", cost, company.get::<Department>("sales", "department"))
        .await?;
    assert_eq!(shown.entity, department);

    let changed = change_phone(&company, "sales", 7, "200");
    pattern.step("change the phone number of the manager", requests(1).written(2), changed).await?;
    assert_eq!(company.get::<Department>("sales", "department").await?.manager_phone, "200");

    pattern.finish().await
}
