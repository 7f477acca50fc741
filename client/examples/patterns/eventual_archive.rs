//! Eventually consistent transactions: workers move employees to another table, without a transaction that covers both
//! tables and without a queue.
//!
//! A table of tasks replaces the queue. A worker claims a task with a lease: it postpones the time at which the task
//! becomes visible, on condition that no other worker has done so. The worker executes the task in repeatable steps,
//! and deletes it in the last step. If the worker stops before that, the task becomes visible again, and the next
//! worker starts over. A task that has been attempted too often moves to a poison table, where an operator finds it
//! with its last error.

use crate::support::{Pattern, Result, requests};
use rowhouse_client::{DateTime, Entity, ErrorKind, IfMatch, Stored, Table};
use std::time::{Duration, SystemTime};

/// The lease of a task. It must exceed the sum of the duration of a task and the difference between the workers'
/// clocks.
const LEASE: Duration = Duration::from_secs(30);

const ATTEMPTS_MAX: i32 = 5;

#[derive(Entity, Debug, Clone, PartialEq)]
struct Employee {
    #[entity(partition_key)]
    department: String,
    #[entity(row_key, padded = 6)]
    id: u32,
    name: String,
    /// The last day of work. Employees who have left no longer change, so all copies are equal.
    left: Option<DateTime>,
}

/// The task to archive an employee. It has the employee's key, so an employee can have only one task.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition_key = "archive", row_key = "{department}_{id:06}")]
struct Task {
    department: String,
    id: u32,
    /// The end of the lease, or of the pause after an error.
    visible_from: DateTime,
    attempts: i32,
    error: Option<String>,
}

/// The point at which a worker stops, as if its process had crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    BeforeCopy,
    AfterCopy,
    AfterDeletion,
    Never,
}

/// Returns the time this many seconds after the start of 2031. Workers receive the time as an argument, so they need
/// not wait.
fn at(second: u64) -> DateTime {
    DateTime::from_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(1_924_992_000 + second))
}

fn is_lost(error: &rowhouse_client::Error) -> bool {
    [ErrorKind::NotFound, ErrorKind::PreconditionFailed].contains(&error.kind())
}

struct Tables {
    current: Table,
    archive: Table,
    tasks: Table,
    poison: Table,
}

impl Tables {
    /// Ordering the archiving of an employee twice has the same effect as ordering it once.
    async fn order(&self, department: &str, id: u32) -> Result {
        let task = Task { department: department.into(), id, visible_from: at(0), attempts: 0, error: None };
        match self.tasks.insert(&task).await {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            result => Ok(result.map(drop)?),
        }
    }

    async fn claim(&self, now: DateTime) -> Result<Option<Stored<Task>>> {
        loop {
            let visible = self.tasks.query::<Task>().partition("archive").filter(|task| task.visible_from.le(now));
            let Some(mut task) = visible.first().await? else { return Ok(None) };
            task.visible_from = DateTime::from_system_time(now.to_system_time() + LEASE);
            task.attempts += 1;
            match self.tasks.replace(&task, &task).await {
                Err(error) if is_lost(&error) => {}
                result => {
                    task.etag = result?.etag;
                    return Ok(Some(task));
                }
            }
        }
    }

    async fn work(&self, now: DateTime, stop: Stop) -> Result<bool> {
        let Some(mut task) = self.claim(now).await? else { return Ok(false) };
        // A worker that crashed could not report an error, so the claims are counted as attempts.
        if task.attempts > ATTEMPTS_MAX {
            self.poison.insert_or_replace(&task.entity).await?;
            self.complete(&task).await?;
        } else if let Err(error) = self.execute(&task, stop).await {
            task.error = Some(error.to_string());
            match self.tasks.replace(&task, &task).await {
                Err(error) if is_lost(&error) => {}
                result => drop(result?),
            }
        }
        Ok(true)
    }

    async fn execute(&self, task: &Stored<Task>, stop: Stop) -> Result {
        let key = Employee::key_of(&task.department, task.id)?;
        let (partition, row) = (key.partition.as_str(), key.row.as_str());
        // If the employee is no longer there, an earlier attempt reached the last step.
        if let Some(employee) = self.current.find::<Employee>(partition, row).await? {
            if employee.left.is_none() {
                return Err(format!("{} has not left", employee.name).into());
            }
            if stop == Stop::BeforeCopy {
                return Ok(());
            }
            self.archive.insert_or_replace(&employee.entity).await?;
            if stop == Stop::AfterCopy {
                return Ok(());
            }
            self.current.delete_if_exists(partition, row, &employee).await?;
        }
        if stop == Stop::AfterDeletion {
            return Ok(());
        }
        self.complete(task).await
    }

    /// If another worker has claimed the task in the meantime, that worker deletes it.
    async fn complete(&self, task: &Stored<Task>) -> Result {
        let key = task.key()?;
        match self.tasks.delete_if_exists(key.partition.as_str(), key.row.as_str(), &task.etag).await {
            Err(error) if is_lost(&error) => Ok(()),
            result => Ok(result.map(drop)?),
        }
    }

    /// Orders a poisoned task again after the cause of its failure was fixed.
    async fn order_again(&self, department: &str, id: u32) -> Result {
        let key = Task::key_of(department, id)?;
        let (partition, row) = (key.partition.as_str(), key.row.as_str());
        self.poison.get::<Task>(partition, row).await?;
        self.order(department, id).await?;
        self.poison.delete_if_exists(partition, row, IfMatch::Any).await?;
        Ok(())
    }

    async fn work_on_all(&self, now: DateTime) -> Result<usize> {
        let mut tasks = 0;
        while self.work(now, Stop::Never).await? {
            tasks += 1;
        }
        Ok(tasks)
    }

    /// Returns whether an employee is in the current table, and whether the employee is in the archive.
    async fn places(&self, id: u32) -> Result<[bool; 2]> {
        let key = Employee::key_of("sales", id)?;
        let (partition, row) = (key.partition.as_str(), key.row.as_str());
        let current = self.current.find::<Employee>(partition, row).await?;
        Ok([current.is_some(), self.archive.find::<Employee>(partition, row).await?.is_some()])
    }
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("eventual_archive").await?;
    let tables = Tables {
        current: pattern.table("current").await?,
        archive: pattern.table("archive").await?,
        tasks: pattern.table("tasks").await?,
        poison: pattern.table("poison").await?,
    };
    for id in 1..=20 {
        let left = (id != 9).then(|| at(0));
        let employee = Employee { department: "sales".into(), id, name: format!("Employee {id}"), left };
        tables.current.insert(&employee).await?;
    }
    stop_after_each_step(&mut pattern, &tables).await?;
    lose_the_lease(&mut pattern, &tables).await?;
    poison(&mut pattern, &tables).await?;

    // Two workers share ten tasks, and no task is executed twice.
    for id in 11..=20 {
        tables.order("sales", id).await?;
    }
    let (one, other) = tokio::try_join!(tables.work_on_all(at(1000)), tables.work_on_all(at(1000)))?;
    assert_eq!(one + other, 10);
    for id in 11..=20 {
        assert_eq!(tables.places(id).await?, [false, true]);
    }
    pattern.finish().await
}

async fn stop_after_each_step(pattern: &mut Pattern, tables: &Tables) -> Result {
    pattern.step("order to archive an employee", requests(1).written(1), tables.order("sales", 7)).await?;
    pattern.step("order it again", requests(1), tables.order("sales", 7)).await?;

    let cost = requests(3).examined(2).returned(2).written(1);
    pattern.step("a worker stops before it copies", cost, tables.work(at(0), Stop::BeforeCopy)).await?;
    assert_eq!(tables.places(7).await?, [true, false]);
    let cost = requests(1).examined(1);
    let is_visible = pattern.step("another worker looks during the lease", cost, tables.work(at(29), Stop::Never));
    assert!(!is_visible.await?);

    let cost = requests(4).examined(2).returned(2).written(2);
    pattern.step("a worker stops after it has copied", cost, tables.work(at(30), Stop::AfterCopy)).await?;
    assert_eq!(tables.places(7).await?, [true, true], "temporarily in both tables");
    let cost = requests(5).examined(2).returned(2).written(3);
    let worked = tables.work(at(60), Stop::AfterDeletion);
    pattern.step("a worker stops after it has deleted the original", cost, worked).await?;
    assert_eq!(tables.places(7).await?, [false, true]);
    let cost = requests(4).examined(1).returned(1).written(2);
    pattern.step("a worker completes the task", cost, tables.work(at(90), Stop::Never)).await?;
    assert_eq!(tables.places(7).await?, [false, true]);
    assert!(!pattern.step("a worker finds no task", requests(1), tables.work(at(120), Stop::Never)).await?);
    Ok(())
}

async fn lose_the_lease(pattern: &mut Pattern, tables: &Tables) -> Result {
    tables.order("sales", 8).await?;
    let slow = tables.claim(at(200)).await?.ok_or("no task is visible")?;
    tables.work(at(230), Stop::BeforeCopy).await?;
    let cost = requests(4).examined(1).returned(1).written(2);
    let late = tables.execute(&slow, Stop::Never);
    pattern.step("a slow worker continues after its lease", cost, late).await?;
    assert_eq!(tables.places(8).await?, [false, true]);
    let cost = requests(4).examined(1).returned(1).written(2);
    pattern.step("the holder of the new lease completes the task", cost, tables.work(at(260), Stop::Never)).await?;
    assert_eq!(tables.places(8).await?, [false, true]);
    Ok(())
}

async fn poison(pattern: &mut Pattern, tables: &Tables) -> Result {
    tables.order("sales", 9).await?;
    let cost = requests(4).examined(2).returned(2).written(2);
    pattern.step("an attempt fails", cost, tables.work(at(300), Stop::Never)).await?;
    for attempt in 2..=5 {
        tables.work(at(300 * attempt), Stop::Never).await?;
    }
    let cost = requests(4).examined(1).returned(1).written(3);
    let given_up = tables.work(at(1800), Stop::Never);
    pattern.step("after five attempts, the task moves to the poison table", cost, given_up).await?;
    assert_eq!(tables.places(9).await?, [true, false]);
    let poisoned = tables.poison.query::<Task>().collect().await?;
    let errors: Vec<_> = poisoned.iter().map(|task| (task.id, task.error.as_deref())).collect();
    assert_eq!(errors, [(9, Some("Employee 9 has not left"))]);

    let employee = Employee { department: "sales".into(), id: 9, name: "Employee 9".into(), left: Some(at(0)) };
    tables.current.replace(&employee, IfMatch::Any).await?;
    let cost = requests(3).examined(1).returned(1).written(2);
    pattern.step("order a poisoned task again", cost, tables.order_again("sales", 9)).await?;
    tables.work(at(1900), Stop::Never).await?;
    assert_eq!(tables.places(9).await?, [false, true]);
    Ok(())
}
