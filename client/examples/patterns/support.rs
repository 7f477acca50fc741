//! The parts that the pattern programs share: a server, and a table of the cost of each step.
//!
//! By default, a program runs on an in-process server that counts the entities examined, returned and written, and
//! asserts these counts. With `TABLES_CONNECTION_STRING`, it runs on any service that returns entities in the order of
//! their keys, which Azure Cosmos DB does not. In that case entities are not counted, and only results are asserted.
//! Tests do the same on servers that rehearse the conditions of the cloud.

use rowhouse_client::entity::{Inverted, KeyFormat};
use rowhouse_client::{Credential, DateTime, Entity, ErrorKind, Table, TableSas, TableService, Transaction};
use rowhouse_testing::{TestServer, TestServerBuilder};
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    requests: u64,
    examined: u64,
    returned: u64,
    written: u64,
}

pub(crate) const fn requests(requests: u64) -> Cost {
    Cost { requests, examined: 0, returned: 0, written: 0 }
}

impl Cost {
    pub(crate) const fn examined(self, examined: u64) -> Self {
        Self { examined, ..self }
    }

    pub(crate) const fn returned(self, returned: u64) -> Self {
        Self { returned, ..self }
    }

    pub(crate) const fn written(self, written: u64) -> Self {
        Self { written, ..self }
    }
}

tokio::task_local! {
    /// The connection string of the service on which a test runs a program.
    static SERVICE: String;
}

pub(crate) struct Pattern {
    name: &'static str,
    service: TableService,
    /// `None` for an external service.
    server: Option<TestServer>,
    tables: Vec<Table>,
    steps: Vec<(String, Cost)>,
}

impl Pattern {
    pub(crate) async fn start(name: &'static str) -> Result<Self> {
        Self::start_on(name, TestServer::builder()).await
    }

    /// Runs the program on a server with these settings, unless it runs on an external service.
    pub(crate) async fn start_on(name: &'static str, server: TestServerBuilder) -> Result<Self> {
        let of_test = SERVICE.try_with(String::clone).ok();
        let elsewhere = of_test.or_else(|| std::env::var("TABLES_CONNECTION_STRING").ok());
        let server = if elsewhere.is_none() { Some(server.start().await?) } else { None };
        let connection_string = elsewhere.or_else(|| server.as_ref().map(TestServer::connection_string));
        let connection_string = connection_string.ok_or("there is no server")?;
        let service = TableService::from_connection_string(&connection_string)?;
        Ok(Self { name, service, server, tables: Vec::new(), steps: Vec::new() })
    }

    /// Creates a table. On an external service, its name gets a numeric suffix to avoid collisions.
    pub(crate) async fn table(&mut self, name: &str) -> Result<Table> {
        let number = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
        let name = if self.server.is_some() { name.to_owned() } else { format!("{name}{number}") };
        let table = self.service.table(&name);
        table.create().await?;
        self.tables.push(table.clone());
        Ok(table)
    }

    pub(crate) fn has_own_server(&self) -> bool {
        self.server.is_some()
    }

    pub(crate) fn guest(&self, table: &Table, signature: &TableSas) -> Result<Table> {
        let credential = Credential::parse(&table.sas(signature)?).ok_or("not a credential")?;
        Ok(TableService::new(self.service.endpoint().clone(), credential)?.table(table.name()))
    }

    pub(crate) async fn step<T, E>(
        &mut self,
        what: &str,
        expected: Cost,
        work: impl Future<Output = std::result::Result<T, E>>,
    ) -> Result<T>
    where
        Box<dyn Error>: From<E>,
    {
        let before = self.server.as_ref().map(TestServer::costs);
        let result = work.await?;
        if let (Some(before), Some(server)) = (before, &self.server) {
            let costs = server.costs() - before;
            let found = requests(costs.requests)
                .examined(costs.entities_examined)
                .returned(costs.entities_returned)
                .written(costs.entities_written);
            assert_eq!(found, expected, "the cost of the step '{what}'");
        }
        self.steps.push((what.to_owned(), expected));
        Ok(result)
    }

    /// Prints the costs of the steps. In a test, compares them with the table in `docs/patterns.md`.
    #[expect(clippy::print_stdout, reason = "printing is the purpose of the program")]
    pub(crate) async fn finish(self) -> Result {
        for table in self.tables.iter().filter(|_| self.server.is_none()) {
            match table.delete_table().await {
                // The program itself has already deleted the table.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                result => result?,
            }
        }
        let costs = self.costs();
        println!("{}\n\n{costs}", self.name);
        if cfg!(test) {
            check_document(self.name, &costs)?;
        }
        Ok(())
    }

    fn costs(&self) -> String {
        let mut text = "| step | requests | examined | returned | written |\n|---|--:|--:|--:|--:|\n".to_owned();
        for (what, Cost { requests, examined, returned, written }) in &self.steps {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {what} | {requests} | {examined} | {returned} | {written} |");
        }
        text
    }
}

pub(crate) async fn fill<E: Entity>(table: &Table, entities: &[E]) -> Result {
    let keyed = entities.iter().map(|entity| Ok((entity.key()?, entity))).collect::<Result<Vec<_>>>()?;
    for partition in keyed.chunk_by(|(one, _), (other, _)| one.partition == other.partition) {
        for chunk in partition.chunks(100) {
            let transaction = chunk.iter().fold(Transaction::new(), |all, (_, entity)| all.insert(*entity));
            table.commit(transaction).await?;
        }
    }
    Ok(())
}

pub(crate) async fn refused<T>(
    work: impl Future<Output = std::result::Result<T, rowhouse_client::Error>>,
) -> Result<rowhouse_client::Error> {
    match work.await {
        Ok(_) => Err("the operation should have been refused".into()),
        Err(error) => Ok(error),
    }
}

/// Returns the range of the row keys or partition keys that begin with a prefix and an inverted time from `from` up to,
/// but not including, `to`. Inverted times sort in reverse, so `to` comes first. One tick is subtracted because the end
/// of the range is exclusive.
pub(crate) fn inverted_range(prefix: &str, from: DateTime, to: DateTime) -> Result<Range<String>> {
    let text = |at: DateTime| -> Result<String> {
        let mut text = prefix.to_owned();
        Inverted::write(&DateTime::from_ticks(at.ticks() - 1).ok_or("too early")?, &mut text)?;
        Ok(text)
    };
    Ok(text(to)?..text(from)?)
}

/// Compares the costs with those in docs/patterns.md, or writes them there with `UPDATE_DOCS=1`.
fn check_document(name: &str, costs: &str) -> Result {
    // Tests run in parallel, and each of them rewrites the whole page.
    static PAGE: Mutex<()> = Mutex::new(());
    let _guard = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/patterns.md");
    let document = fs::read_to_string(path)?;
    let (begin, end) = (format!("<!-- costs of {name} -->\n"), "<!-- end of costs -->");
    let parts = document.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?)));
    let (before, (documented, after)) = parts.ok_or_else(|| format!("docs/patterns.md has no place for {name}"))?;
    if documented != costs && std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, format!("{before}{begin}{costs}{end}{after}"))?;
        return Ok(());
    }
    assert_eq!(documented, costs, "UPDATE_DOCS=1 writes the costs into docs/patterns.md");
    Ok(())
}

/// The rehearsals under which every program must have the same results. Together, they have every condition. The times
/// are short, because programs wait for them.
#[cfg(test)]
const REHEARSALS: [&str; 4] = [
    "empty-pages=100%,seed=1",
    "partition-pages,short-pages=100%,seed=1",
    "all,creation=50ms,busy=0.5%,latency=0ms..2ms,lost-answers=off,seed=1",
    LOST_ANSWERS,
];
/// A lost response ends a program: the client library does not repeat an insert that may have been executed.
#[cfg(test)]
const LOST_ANSWERS: &str = "lost-answers=2%,seed=1";

/// Runs a program on a server that counts, and on servers that are as awkward as the cloud can be.
#[cfg(test)]
pub(crate) async fn check(run: impl Fn() -> std::pin::Pin<Box<dyn Future<Output = Result>>>) -> Result {
    run().await?;
    for conditions in REHEARSALS {
        let server = TestServer::builder().rehearse(conditions).start().await?;
        match SERVICE.scope(server.connection_string(), run()).await {
            Err(error) if conditions == LOST_ANSWERS && is_unreachable(&*error) => {
                // The server is still there.
                TableService::from_connection_string(&server.connection_string())?.table("other").exists().await?;
            }
            result => result.map_err(|error| format!("under {conditions}: {error}"))?,
        }
    }
    Ok(())
}

#[cfg(test)]
fn is_unreachable(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<rowhouse_client::Error>().is_some_and(|error| error.kind() == ErrorKind::Unreachable)
}
