//! Index entities: entities that list the entities with a certain property value.
//!
//! An index on a last name that many employees share has two possible designs: one entity with a list of employee
//! numbers, or a small entity for each employee whose row key starts with the name. Reading the list takes one get, but
//! every change requires a read and a conditional write. Concurrent changes conflict, and the list is limited to 64
//! KiB. Small entities have none of these limitations, so prefer them.

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::{Entity, EntityKey, ErrorKind, IfMatch, Stored, Table, Transaction};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "id_{id:06}")]
struct Employee {
    #[entity(partition_key)]
    department: String,
    id: u32,
    last_name: String,
}

/// Whenever a round fails, another client has succeeded. If this many rounds fail in a row, the index must be damaged.
const ROUNDS_MAX: u32 = 100;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "list_{last_name}")]
struct NameList {
    #[entity(partition_key)]
    department: String,
    last_name: String,
    /// Employee numbers, separated by spaces.
    ids: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "name_{last_name}_{id:06}")]
struct NameEntry {
    #[entity(partition_key)]
    department: String,
    last_name: String,
    id: u32,
}

/// Commits a transaction that depends on what was read, and starts over if another client has changed the data.
async fn commit_unchanged(employees: &Table, read: impl AsyncFn() -> Result<Transaction>) -> Result {
    let mut rounds = 0;
    loop {
        rounds += 1;
        match employees.commit(read().await?).await {
            Err(error) if rounds < ROUNDS_MAX && is_outdated(&error) => {}
            result => return Ok(result.map(drop)?),
        }
    }
}

/// Returns true if another client has changed an entity, or has created or deleted the list of a name. The first
/// operation must be the change of the employee.
fn is_outdated(error: &rowhouse_client::Error) -> bool {
    match error.kind() {
        ErrorKind::PreconditionFailed => true,
        ErrorKind::Conflict | ErrorKind::NotFound => error.operation_index() != Some(0),
        _ => false,
    }
}

async fn find_list(employees: &Table, department: &str, last_name: &str) -> Result<Option<Stored<NameList>>> {
    let key = NameList::key_of(department, last_name)?;
    Ok(employees.find(key.partition.as_str(), key.row.as_str()).await?)
}

/// Adds an employee to the list of the name, on condition that the list has not changed.
fn listed(all: Transaction, list: Option<Stored<NameList>>, employee: &Employee) -> Transaction {
    let Employee { department, id, last_name } = employee.clone();
    match list {
        None => all.insert(&NameList { department, last_name, ids: id.to_string() }),
        Some(mut list) => {
            list.ids = format!("{} {id}", list.ids);
            all.replace(&list, &list)
        }
    }
}

/// Removes an employee from the list of the name, and the list with its last employee.
fn unlisted(all: Transaction, mut list: Stored<NameList>, id: u32) -> Result<Transaction> {
    let others: Vec<_> = list.ids.split(' ').filter(|other| *other != id.to_string()).map(str::to_owned).collect();
    if others.is_empty() {
        let key = list.key()?;
        return Ok(all.delete(key.partition.as_str(), key.row.as_str(), &list));
    }
    list.ids = others.join(" ");
    Ok(all.replace(&list, &list))
}

async fn hire_with_list(employees: &Table, employee: &Employee) -> Result {
    let read = async || {
        let list = find_list(employees, &employee.department, &employee.last_name).await?;
        Ok(listed(Transaction::new().insert(employee), list, employee))
    };
    commit_unchanged(employees, read).await
}

async fn rename_with_lists(employees: &Table, key: &EntityKey, last_name: &str) -> Result {
    let read = async || {
        let employee = employees.get_by_key::<Employee>(key).await?;
        let renamed = Employee { last_name: last_name.into(), ..employee.entity.clone() };
        let old = find_list(employees, &employee.department, &employee.last_name).await?.ok_or("there is no list")?;
        let new = find_list(employees, &employee.department, last_name).await?;
        let all = unlisted(Transaction::new().replace(&renamed, &employee), old, employee.id)?;
        Ok(listed(all, new, &renamed))
    };
    commit_unchanged(employees, read).await
}

async fn remove_with_list(employees: &Table, key: &EntityKey) -> Result {
    let read = async || {
        let employee = employees.get_by_key::<Employee>(key).await?;
        let list = find_list(employees, &employee.department, &employee.last_name).await?.ok_or("there is no list")?;
        let all = Transaction::new().delete(key.partition.as_str(), key.row.as_str(), &employee);
        unlisted(all, list, employee.id)
    };
    commit_unchanged(employees, read).await
}

fn entry(Employee { department, id, last_name }: Employee) -> NameEntry {
    NameEntry { department, last_name, id }
}

/// No other client changes the index entity of an employee without changing the employee.
fn unindexed(all: Transaction, employee: &Employee) -> Result<Transaction> {
    let key = entry(employee.clone()).key()?;
    Ok(all.delete(key.partition.as_str(), key.row.as_str(), IfMatch::Any))
}

/// Hires an employee with a separate index entity, which requires no read and causes no conflicts.
async fn hire_with_entry(employees: &Table, employee: &Employee) -> Result {
    employees.commit(Transaction::new().insert(employee).insert(&entry(employee.clone()))).await?;
    Ok(())
}

async fn rename_with_entries(employees: &Table, key: &EntityKey, last_name: &str) -> Result {
    let read = async || {
        let employee = employees.get_by_key::<Employee>(key).await?;
        let renamed = Employee { last_name: last_name.into(), ..employee.entity.clone() };
        let all = Transaction::new().replace(&renamed, &employee);
        unindexed(all.insert(&entry(renamed)), &employee)
    };
    commit_unchanged(employees, read).await
}

async fn remove_with_entry(employees: &Table, key: &EntityKey) -> Result {
    let read = async || {
        let employee = employees.get_by_key::<Employee>(key).await?;
        unindexed(Transaction::new().delete(key.partition.as_str(), key.row.as_str(), &employee), &employee)
    };
    commit_unchanged(employees, read).await
}

/// Returns the numbers of the employees with a name, according to the entries and to the list.
async fn numbers(employees: &Table, last_name: &str) -> Result<(Vec<u32>, Vec<u32>)> {
    let prefix = format!("name_{last_name}_");
    let entries = employees.query::<NameEntry>().partition("sales").row_prefix(&prefix).collect().await?;
    let list = find_list(employees, "sales", last_name).await?.map(|list| list.ids.clone()).unwrap_or_default();
    let listed = list.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
    Ok((entries.iter().map(|entry| entry.id).collect(), listed))
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
    let entries: Vec<_> = all.iter().filter(|e| e.last_name == "Jones").cloned().map(entry).collect();
    fill(&employees, &entries).await?;
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
    let cost = requests(4).examined(2).returned(2).written(3);
    let key = new.key()?;
    let renamed = rename_with_lists(&employees, &key, "Moser");
    pattern.step("change a last name, with the lists", cost, renamed).await?;
    assert_eq!(numbers(&employees, "Moser").await?.1, [41]);
    let cost = requests(3).examined(2).returned(2).written(2);
    pattern.step("remove an employee, with the list", cost, remove_with_list(&employees, &key)).await?;
    assert!(numbers(&employees, "Moser").await?.1.is_empty());

    let new = employee((42, "Jones"));
    pattern.step("hire an employee, with an entry", requests(1).written(2), hire_with_entry(&employees, &new)).await?;
    let cost = requests(2).examined(1).returned(1).written(3);
    let key = new.key()?;
    let renamed = rename_with_entries(&employees, &key, "Moser");
    pattern.step("change a last name, with the entries", cost, renamed).await?;
    assert_eq!(numbers(&employees, "Moser").await?.0, [42]);
    let cost = requests(2).examined(1).returned(1).written(2);
    pattern.step("remove an employee, with the entry", cost, remove_with_entry(&employees, &key)).await?;
    assert_eq!(numbers(&employees, "Moser").await?, (vec![], vec![]));
    assert_eq!(numbers(&employees, "Jones").await?, (jones.clone(), jones));

    pattern.finish().await
}
