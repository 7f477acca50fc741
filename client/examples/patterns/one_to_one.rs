//! One-to-one: an entity split into two, for different readers.
//!
//! The data that every request needs about a user is small. The profile is large and rarely shown. Both entities have
//! the user as partition key, and each has a fixed row key, so neither needs a reference to the other. A shared access
//! signature for a key range gives access to only one of them.

use crate::support::{Pattern, Result, requests};
use rowhouse_client::{DateTime, Entity, Permissions, TableSas, Transaction};
use std::time::{Duration, SystemTime};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "account")]
struct Account {
    #[entity(partition_key)]
    user: String,
    is_active: bool,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "profile")]
struct Profile {
    #[entity(partition_key)]
    user: String,
    about: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(tag = "Kind")]
enum Part {
    Account(Account),
    Profile(Profile),
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("one_to_one").await?;
    let users = pattern.table("users").await?;
    let account = Account { user: "ada".into(), is_active: true };
    let profile = Profile { user: "ada".into(), about: "x".repeat(30_000) };

    let both = Transaction::new().insert(&Part::Account(account.clone())).insert(&Part::Profile(profile.clone()));
    pattern.step("register a user", requests(1).written(2), users.commit(both)).await?;

    let cost = requests(1).examined(1).returned(1);
    let found = pattern.step("check a user, without the profile", cost, users.get::<Account>("ada", "account")).await?;
    assert_eq!(found.entity, account);

    let read = users.query::<Part>().partition("ada").collect();
    let parts = pattern.step("show a user with the profile", requests(1).examined(2).returned(2), read).await?;
    let parts: Vec<Part> = parts.into_iter().map(rowhouse_client::Stored::into_entity).collect();
    assert_eq!(parts, [Part::Account(account), Part::Profile(profile)]);

    // Anyone with this signature can read only this entity, whatever the query.
    let expiry = DateTime::from_system_time(SystemTime::now() + Duration::from_hours(1));
    let signature = TableSas::new(Permissions::READ, expiry);
    let signature = signature.from_entity("ada", "account").to_entity("ada", "account");
    let guest = pattern.guest(&users, &signature)?;
    let read = guest.query::<Part>().partition("ada").collect();
    let cost = requests(1).examined(1).returned(1);
    let parts = pattern.step("the same query, with a signature for the account", cost, read).await?;
    assert!(matches!(parts.first().map(|part| &part.entity), Some(Part::Account(_))));

    pattern.finish().await
}
