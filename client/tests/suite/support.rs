use rowhouse_client::{Entity, RetryPolicy, Table, TableService};
use rowhouse_testing::TestServer;
use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

#[derive(Entity, Debug, Clone, PartialEq)]
pub(crate) struct Customer {
    #[entity(partition_key)]
    pub(crate) city: String,
    #[entity(row_key)]
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) visits: i32,
    pub(crate) mail: Option<String>,
}

pub(crate) fn customer(city: &str, id: &str, visits: i32) -> Customer {
    Customer { city: city.to_owned(), id: id.to_owned(), name: format!("Name {id}"), visits, mail: None }
}

/// An in-process server stops when it is dropped.
pub(crate) struct Account {
    pub(crate) service: TableService,
    pub(crate) connection_string: String,
    _server: Option<TestServer>,
}

pub(crate) async fn account() -> Account {
    let (text, server) = if let Ok(text) = env::var("TABLES_CONNECTION_STRING") {
        (text, None)
    } else {
        let server = TestServer::start().await.unwrap();
        (server.connection_string(), Some(server))
    };
    let retry = RetryPolicy::exponential().pauses(Duration::from_millis(20), Duration::from_secs(1));
    let service = TableService::builder_from_connection_string(&text).unwrap().retry(retry).build().unwrap();
    Account { service, connection_string: text, _server: server }
}

pub(crate) fn new_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    format!("suite{now}x{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn new_table() -> (Account, Table) {
    let account = account().await;
    let table = account.service.table(&new_name());
    table.create().await.unwrap();
    (account, table)
}

/// Returns true and prints the reason if the service is the emulator, which is known to differ in this case.
pub(crate) fn emulator_differs(reason: &str) -> bool {
    let is_emulator = env::var("TABLES_SERVER").is_ok_and(|server| server == "azurite");
    if is_emulator {
        println!("the emulator differs: {reason}");
    }
    is_emulator
}
