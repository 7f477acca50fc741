//! Index entities in another table: an eventually consistent index over all partitions.
//!
//! Employees are partitioned by department, and a query for a last name concerns every department. The index therefore
//! has its own table, partitioned by last name. No transaction covers both tables, but the order of the writes keeps
//! the index complete: an entry is written before an employee gets the name, and deleted only after the employee loses
//! it. The index may therefore contain too many employees, but never too few. Readers check each entry, and a repair
//! deletes wrong entries.

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::{DateTime, Entity, EntityKey, ErrorKind, IfMatch, Stored, Table};

#[derive(Entity, Debug, Clone, PartialEq)]
struct Employee {
    #[entity(partition_key)]
    department: String,
    #[entity(row_key, padded = 6)]
    id: u32,
    last_name: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{department}_{id:06}")]
struct NameEntry {
    #[entity(partition_key)]
    last_name: String,
    department: String,
    id: u32,
    #[entity(timestamp)]
    written: Option<DateTime>,
}

fn entry(Employee { department, id, last_name }: Employee) -> NameEntry {
    NameEntry { last_name, department, id, written: None }
}

struct Tables {
    employees: Table,
    names: Table,
}

impl Tables {
    async fn index(&self, employee: &Employee) -> Result {
        self.names.insert_or_replace(&entry(employee.clone())).await?;
        Ok(())
    }

    async fn remove_from_index(&self, employee: &Employee) -> Result {
        let key = entry(employee.clone()).key()?;
        self.names.delete_if_exists(key.partition.as_str(), key.row.as_str(), IfMatch::Any).await?;
        Ok(())
    }

    async fn hire(&self, employee: &Employee) -> Result {
        self.index(employee).await?;
        self.employees.insert(employee).await?;
        Ok(())
    }

    /// Changes a last name. Fails if another program changes the employee at the same time, and leaves the new entry to
    /// the repair.
    async fn rename(&self, key: &EntityKey, last_name: &str) -> Result {
        let employee = self.employees.get_by_key::<Employee>(key).await?;
        let renamed = Employee { last_name: last_name.into(), ..employee.entity.clone() };
        self.index(&renamed).await?;
        self.employees.replace(&renamed, &employee).await?;
        self.remove_from_index(&employee).await
    }

    async fn remove(&self, key: &EntityKey) -> Result {
        let employee = self.employees.get_by_key::<Employee>(key).await?;
        self.employees.delete(key.partition.as_str(), key.row.as_str(), &employee).await?;
        self.remove_from_index(&employee).await
    }

    /// Returns the employee of an index entity, or `None` if the entry is wrong.
    async fn check(&self, entry: &NameEntry) -> Result<Option<Stored<Employee>>> {
        let key = Employee::key_of(&entry.department, entry.id)?;
        let employee = self.employees.find::<Employee>(key.partition.as_str(), key.row.as_str()).await?;
        Ok(employee.filter(|employee| employee.last_name == entry.last_name))
    }

    /// Returns the employees with a last name. The gets could be sent concurrently.
    async fn find(&self, last_name: &str) -> Result<Vec<Stored<Employee>>> {
        let mut found = Vec::new();
        for entry in self.names.query::<NameEntry>().partition(last_name).collect().await? {
            found.extend(self.check(&entry).await?);
        }
        Ok(found)
    }

    /// Deletes wrong entries. Skips recent entries, because the change that wrote them may still be in progress.
    async fn repair(&self, written_before: DateTime) -> Result<usize> {
        let mut deleted = 0;
        let old = self.names.query::<NameEntry>().filter(|entry| entry.written.lt(written_before));
        for entry in old.collect().await? {
            if self.check(&entry).await?.is_none() {
                let key = entry.key()?;
                match self.names.delete_if_exists(key.partition.as_str(), key.row.as_str(), &entry).await {
                    // Another program has rewritten the entry, so it may be correct by now.
                    Err(error) if error.kind() == ErrorKind::PreconditionFailed => {}
                    result => deleted += usize::from(result?),
                }
            }
        }
        Ok(deleted)
    }
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("index_table").await?;
    let tables = Tables { employees: pattern.table("employees").await?, names: pattern.table("names").await? };
    let all = || {
        let names = ["Abel", "Bach", "Curie", "Jones"].into_iter().cycle();
        let departments = ["lab", "press", "sales"].into_iter().cycle();
        let employee = |((id, name), department): ((u32, &str), &str)| Employee {
            department: department.into(),
            id,
            last_name: name.into(),
        };
        (1..=60).zip(names).zip(departments).map(employee)
    };
    let mut employees: Vec<_> = all().collect();
    employees.sort_by(|one, other| one.department.cmp(&other.department));
    fill(&tables.employees, &employees).await?;
    let mut entries: Vec<_> = all().map(entry).collect();
    entries.sort_by(|one, other| one.last_name.cmp(&other.last_name));
    fill(&tables.names, &entries).await?;

    let new = Employee { department: "lab".into(), id: 61, last_name: "Jones".into() };
    pattern.step("hire an employee", requests(2).written(2), tables.hire(&new)).await?;
    let scan = tables.employees.query::<Employee>().filter(|e| e.last_name.eq("Jones")).collect();
    let cost = requests(1).examined(61).returned(16);
    pattern.step("find all with a name, without an index", cost, scan).await?;
    let cost = requests(17).examined(32).returned(32);
    assert_eq!(pattern.step("find them with the index", cost, tables.find("Jones")).await?.len(), 16);
    let cost = requests(4).examined(1).returned(1).written(3);
    pattern.step("change a last name", cost, tables.rename(&new.key()?, "Moser")).await?;
    assert_eq!((tables.find("Jones").await?.len(), tables.find("Moser").await?.len()), (15, 1));
    let cost = requests(3).examined(1).returned(1).written(2);
    pattern.step("remove an employee", cost, tables.remove(&new.key()?)).await?;

    // One program crashes after the first write of a change, another one after the second.
    let (first, second) = (Employee::key_of("lab", 4)?, Employee::key_of("press", 8)?);
    let moser = |employee: Employee| Employee { last_name: "Moser".into(), ..employee };
    let employee = tables.employees.get_by_key::<Employee>(&first).await?;
    tables.index(&moser(employee.into_entity())).await?;
    let employee = tables.employees.get_by_key::<Employee>(&second).await?;
    tables.index(&moser(employee.entity.clone())).await?;
    tables.employees.replace(&moser(employee.entity.clone()), &employee).await?;
    let cost = requests(3).examined(4).returned(4);
    let found = pattern.step("find by the new name, after two crashes", cost, tables.find("Moser")).await?;
    assert_eq!(found.iter().map(|employee| employee.id).collect::<Vec<_>>(), [8]);
    assert_eq!(tables.find("Jones").await?.len(), 14, "and the other one still has the old name");

    let cost = requests(65).examined(124).returned(124).written(2);
    let repaired = tables.repair(DateTime::MAX);
    assert_eq!(pattern.step("repair: check the employee of each entry", cost, repaired).await?, 2);
    assert_eq!((tables.find("Jones").await?.len(), tables.find("Moser").await?.len()), (14, 1));

    pattern.finish().await
}
