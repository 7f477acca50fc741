//! Inheritance: kinds with common properties, in one table.
//!
//! Employees and contractors are people. Every entity has the properties of a person and the properties of its kind. An
//! enum reads each entity as its own kind. A type with only the common properties reads entities of every kind. If one
//! kind is often queried separately, its keys start with the kind.

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::Entity;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "employee_{id:06}")]
struct Employee {
    #[entity(partition_key)]
    office: String,
    id: u32,
    name: String,
    salary: i64,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "contractor_{id:06}")]
struct Contractor {
    #[entity(partition_key)]
    office: String,
    id: u32,
    name: String,
    agency: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(tag = "Kind")]
enum Person {
    Employee(Employee),
    Contractor(Contractor),
}

/// The properties that all people have, like a base class.
#[derive(Entity, Debug, Clone, PartialEq)]
struct AnyPerson {
    #[entity(partition_key)]
    office: String,
    #[entity(row_key)]
    key: String,
    name: String,
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("inheritance").await?;
    let people = pattern.table("people").await?;
    let contractor = |id| {
        Person::Contractor(Contractor {
            office: "turin".into(),
            id,
            name: format!("Contractor {id}"),
            agency: "Agency".into(),
        })
    };
    let employee =
        |id| Person::Employee(Employee { office: "turin".into(), id, name: format!("Employee {id}"), salary: 100 });
    fill(&people, &(1..=20).map(contractor).chain((1..=60).map(employee)).collect::<Vec<_>>()).await?;

    let all = people.query::<AnyPerson>().partition("turin").collect();
    let all = pattern.step("all people, as a common type", requests(1).examined(80).returned(80), all).await?;
    assert_eq!(all.first().map(|person| person.name.as_str()), Some("Contractor 1"));

    let all = people.query::<Person>().partition("turin").collect();
    let all = pattern.step("all people, as their own kinds", requests(1).examined(80).returned(80), all).await?;
    assert_eq!(all.iter().filter(|person| matches!(person.entity, Person::Employee(_))).count(), 60);

    let some = people.query::<Person>().partition("turin").filter(|p| p.kind.eq("Contractor")).collect();
    pattern.step("one kind, by its property", requests(1).examined(80).returned(20), some).await?;

    let some = people.query::<Contractor>().partition("turin").row_prefix("contractor_").collect();
    let some = pattern.step("one kind, by its keys", requests(1).examined(20).returned(20), some).await?;
    assert_eq!(some.len(), 20);

    pattern.finish().await
}
