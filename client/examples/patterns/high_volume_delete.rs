//! High-volume delete: put entities that are deleted together into their own table.
//!
//! Sign-ins are needed for only sixty days. To delete them individually, a program must read and write each of them. If
//! each day has its own table, one request deletes a whole day, whatever its size. The table name contains the day, so
//! a program knows which tables to query.

use crate::support::{Pattern, Result, fill, refused, requests};
use rowhouse_client::{Entity, ErrorKind, IfMatch, PropertyBag, Table, Transaction};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{day}_{number:06}")]
struct SignIn {
    #[entity(partition_key)]
    user: String,
    day: String,
    number: u32,
    address: String,
}

fn sign_ins(day: &str) -> Vec<SignIn> {
    let of_user = |user: &'static str| (0..100).map(move |number| (user, number));
    let all = ["ada", "emmy", "sonja"].into_iter().flat_map(of_user);
    all.map(|(user, number)| SignIn { user: user.into(), day: day.into(), number, address: "192.0.2.7".into() })
        .collect()
}

/// Deletes the sign-ins of a day from a table that contains all days. Deletes them by partition, in transactions of up
/// to 100 operations.
async fn delete_day(table: &Table, day: &str) -> Result {
    let keys = table.query::<PropertyBag>().filter(|p| p.row_key.starts_with(format!("{day}_")));
    let keys = keys.select(|p| (p.partition_key, p.row_key)).collect().await?;
    for partition in keys.chunk_by(|(one, _), (other, _)| one == other) {
        for chunk in partition.chunks(100) {
            let delete = |all: Transaction, (user, row): &(String, String)| all.delete(user, row, IfMatch::Any);
            table.commit(chunk.iter().fold(Transaction::new(), delete)).await?;
        }
    }
    Ok(())
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("high_volume_delete").await?;
    let days = ["20310401", "20310402"];

    let all = pattern.table("signins").await?;
    for day in days {
        fill(&all, &sign_ins(day)).await?;
    }
    let cost = requests(4).examined(600).returned(300).written(300);
    pattern.step("delete a day of 300 entities from a table of two days", cost, delete_day(&all, days[0])).await?;

    let tables = [pattern.table("signins20310401").await?, pattern.table("signins20310402").await?];
    for (table, day) in tables.iter().zip(days) {
        fill(table, &sign_ins(day)).await?;
    }
    let [old, new] = tables;
    pattern.step("delete the table of a day", requests(1), old.delete_table()).await?;
    let error = refused(old.query::<SignIn>().partition("ada").collect()).await?;
    assert_eq!(error.kind(), ErrorKind::NotFound);

    let cost = requests(1).examined(100).returned(100);
    let kept = pattern
        .step("read a user's sign-ins on the remaining day", cost, new.query::<SignIn>().partition("ada").collect())
        .await?;
    assert_eq!(kept.len(), 100);

    pattern.finish().await
}
