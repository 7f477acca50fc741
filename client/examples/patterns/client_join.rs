//! Client-side join: small tables that rarely change are read once and cached.
//!
//! A list of employees shows the name of each employee's department. Reading the department for every line costs one
//! request per line. Because there are few departments, the program reads them once, caches them in a map, and
//! refreshes the map from time to time.

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::{Entity, Table};
use std::collections::HashMap;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition_key = "departments")]
struct Department {
    #[entity(row_key)]
    id: String,
    name: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
struct Employee {
    #[entity(partition_key)]
    office: String,
    #[entity(row_key, padded = 6)]
    id: u32,
    name: String,
    department: String,
}

async fn departments(table: &Table) -> Result<HashMap<String, String>> {
    let all = table.query::<Department>().partition("departments").select(|d| (d.id, d.name)).collect().await?;
    Ok(all.into_iter().collect())
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("client_join").await?;
    let (departments_table, employees) = (pattern.table("departments").await?, pattern.table("employees").await?);
    let department = |id: u32| Department { id: format!("d{id}"), name: format!("Department {id}") };
    fill(&departments_table, &(0..8).map(department).collect::<Vec<_>>()).await?;
    let employee = |id: u32| Employee {
        office: "turin".into(),
        id,
        name: format!("Employee {id}"),
        department: format!("d{}", id % 8),
    };
    fill(&employees, &(1..=100).map(employee).collect::<Vec<_>>()).await?;

    let one_by_one = async {
        let mut lines = Vec::new();
        for employee in employees.query::<Employee>().partition("turin").collect().await? {
            let department = departments_table.get::<Department>("departments", &employee.department).await?;
            lines.push(format!("{}, {}", employee.name, department.name));
        }
        Result::Ok(lines)
    };
    let cost = requests(101).examined(200).returned(200);
    let slowly = pattern.step("a list of 100 employees, a get for each department", cost, one_by_one).await?;

    let cost = requests(1).examined(8).returned(8);
    let names = pattern.step("read the departments, once", cost, departments(&departments_table)).await?;

    let joined = async {
        let mut lines = Vec::new();
        for employee in employees.query::<Employee>().partition("turin").collect().await? {
            let department = names.get(&employee.department).ok_or("a new department: read them again")?;
            lines.push(format!("{}, {department}", employee.name));
        }
        Result::Ok(lines)
    };
    let cost = requests(1).examined(100).returned(100);
    assert_eq!(pattern.step("a list of 100 employees, joined in the client", cost, joined).await?, slowly);

    pattern.finish().await
}
