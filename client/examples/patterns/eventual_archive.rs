//! Eventually consistent transactions: entities move to another table, without a transaction that covers both tables
//! and without a queue.
//!
//! The order to archive an employee is itself an entity in the employee's partition, so one transaction writes the
//! order and marks the employee. A worker executes orders in repeatable steps: first it copies the employee, then it
//! deletes the original and the order together. If it stops, the order remains, and the next worker starts over. In the
//! meantime, the employee may be in both tables, but always is in at least one.

use crate::support::{Pattern, Result, requests};
use rowhouse_client::{Entity, ErrorKind, IfMatch, Table, Transaction};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "employee_{id:06}")]
struct Employee {
    #[entity(partition_key)]
    department: String,
    id: u32,
    name: String,
    is_leaving: bool,
}

/// An order to the worker. With a queue, this would be a message.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "archive_{id:06}")]
struct ArchiveOrder {
    #[entity(partition_key)]
    department: String,
    id: u32,
}

/// The point at which a worker stops, as if its process had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    BeforeCopy,
    AfterCopy,
    Never,
}

async fn order_archiving(current: &Table, department: &str, id: u32) -> Result {
    let key = Employee::key_of(department, id)?;
    let mut employee = current.get_by_key::<Employee>(&key).await?;
    employee.is_leaving = true;
    let order = ArchiveOrder { department: department.to_owned(), id };
    current.commit(Transaction::new().replace(&employee.entity, &employee).insert(&order)).await?;
    Ok(())
}

/// Executes the orders of a department.
async fn work(current: &Table, archive: &Table, department: &str, stop: Stop) -> Result {
    let orders = current.query::<ArchiveOrder>().partition(department).row_prefix("archive_").collect().await?;
    for order in orders {
        let (employee, order) = (Employee::key_of(department, order.id)?, order.key()?);
        let (partition, row) = (employee.partition.as_str(), employee.row.as_str());
        let Some(leaving) = current.find::<Employee>(partition, row).await? else {
            // Another worker has completed the order.
            continue;
        };
        if stop == Stop::BeforeCopy {
            return Ok(());
        }
        archive.insert_or_replace(&leaving.entity).await?;
        if stop == Stop::AfterCopy {
            return Ok(());
        }
        let moved = Transaction::new().delete(partition, row, &leaving).delete(
            order.partition.as_str(),
            order.row.as_str(),
            IfMatch::Any,
        );
        match current.commit(moved).await {
            // Another worker has completed the order, or the employee has changed since it was copied. In that case the
            // order remains.
            Err(error) if [ErrorKind::NotFound, ErrorKind::PreconditionFailed].contains(&error.kind()) => {}
            result => drop(result?),
        }
    }
    Ok(())
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("eventual_archive").await?;
    let (current, archive) = (pattern.table("current").await?, pattern.table("archive").await?);
    for id in 1..=20 {
        let employee = Employee { department: "sales".into(), id, name: format!("Employee {id}"), is_leaving: false };
        current.insert(&employee).await?;
    }
    let places = async || -> Result<[bool; 2]> {
        let (current, archive) = (
            current.find::<Employee>("sales", "employee_000007"),
            archive.find::<Employee>("sales", "employee_000007"),
        );
        Ok([current.await?.is_some(), archive.await?.is_some()])
    };

    let ordered = order_archiving(&current, "sales", 7);
    pattern.step("order to archive an employee", requests(2).examined(1).returned(1).written(2), ordered).await?;

    let worked = work(&current, &archive, "sales", Stop::BeforeCopy);
    pattern.step("a worker stops before it copies", requests(2).examined(2).returned(2), worked).await?;
    assert_eq!(places().await?, [true, false]);

    let worked = work(&current, &archive, "sales", Stop::AfterCopy);
    pattern.step("a worker stops after it has copied", requests(3).examined(2).returned(2).written(1), worked).await?;
    assert_eq!(places().await?, [true, true], "temporarily in both tables");

    let worked = work(&current, &archive, "sales", Stop::Never);
    pattern.step("a worker completes the order", requests(4).examined(2).returned(2).written(3), worked).await?;
    assert_eq!(places().await?, [false, true]);

    let worked = work(&current, &archive, "sales", Stop::Never);
    pattern.step("a worker finds no order", requests(1), worked).await?;

    pattern.finish().await
}
