//! The load of one account: writers of entities, of transactions and of tables, each with a model, and a reader.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::Scope;
use test_support::writers::{Catalog, EntityWriter, Transactions, Until, Writer};
use test_support::{Account, Client, Random, Server};

const WRITERS: u64 = 3;
pub(super) const TABLE: &str = "crash";
/// The partition of the entity that is written to check whether the server accepts writes.
pub(super) const PROBE: &str = "probe";

pub(super) struct Load {
    account: Account,
    writers: Vec<EntityWriter>,
    transactions: Transactions,
    catalog: Catalog,
}

impl Load {
    pub(super) fn new(account: Account, random: &mut Random) -> Self {
        let writers = (0..WRITERS).map(|number| EntityWriter::new(number, random.number())).collect();
        let (transactions, catalog) = (Transactions::new(random.number()), Catalog::new(random.number()));
        Self { account, writers, transactions, catalog }
    }

    pub(super) fn create_table(&self, server: &Server) {
        let body = format!("{{\"TableName\":\"{TABLE}\"}}");
        let answer = server.client_of(&self.account).request("POST", "/Tables", &[], body.as_bytes());
        assert_eq!(answer.status, 201);
    }

    pub(super) fn work<'scope>(
        &'scope mut self,
        scope: &'scope Scope<'scope, '_>,
        address: &'scope str,
        is_over: &'scope AtomicBool,
        acknowledged: &'scope AtomicU64,
    ) {
        let (sender, receiver) = channel();
        let Self { account, writers, transactions, catalog } = self;
        let (account, until) = (&*account, Until::Flag(is_over));
        for writer in writers {
            let sender = sender.clone();
            scope.spawn(move || writer.write_as(account, address, &sender, until));
        }
        let of_transactions = sender.clone();
        scope.spawn(move || transactions.write_as(account, address, &of_transactions, until));
        scope.spawn(move || catalog.write_as(account, address, &sender, until));
        scope.spawn(move || acknowledged.fetch_add(receiver.iter().count() as u64, Ordering::Relaxed));
        scope.spawn(move || read(account, address, is_over));
    }

    /// Compares the stored data with the clients' models, and lets the clients learn the outcome of unacknowledged
    /// writes.
    pub(super) fn check(&mut self, server: &Server, round: u64) {
        let mut client = server.client_of(&self.account);
        for writer in &mut self.writers {
            writer.check(&mut client, round);
        }
        self.transactions.check(&mut client, round);
        self.catalog.check(&mut client, round);
    }

    /// Checks that all stored entities were written by a client. The clients' entities have already been compared.
    pub(super) fn compare_everything(&self, server: &Server) {
        let mut client = server.client_of(&self.account);
        let tables = client.request("GET", "/Tables", &[], b"").json();
        for table in tables["value"].as_array().unwrap() {
            let table = table["TableName"].as_str().unwrap();
            let expected = if table == TABLE { self.entities() } else { 0 };
            let filter = format!("$filter=PartitionKey%20ne%20'{PROBE}'&$select=RowKey");
            let found = client.query(&format!("/{table}()?{filter}"), &[]).unwrap();
            assert_eq!(found.len(), expected, "{table} of {}", self.account.name);
        }
    }

    fn entities(&self) -> usize {
        self.writers.iter().map(EntityWriter::entities).sum::<usize>() + self.transactions.entities()
    }
}

/// Reads pages until the test is over or the server has stopped. Each page must show the partition of a writer of
/// transactions in a consistent state.
fn read(account: &Account, address: &str, is_over: &AtomicBool) {
    let Ok(mut client) = Client::connect_as(address, account) else { return };
    while !is_over.load(Ordering::SeqCst) {
        let path = format!("/{TABLE}()?$filter=PartitionKey%20eq%20'transactions'&$select=Number");
        let Ok(page) = client.try_request("GET", &path, &[], b"") else { return };
        if page.status == 503 {
            continue;
        }
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        let entities = page["value"].as_array().unwrap();
        assert!(entities.iter().all(|entity| entity["Number"] == entities[0]["Number"]), "{page}");
    }
}
