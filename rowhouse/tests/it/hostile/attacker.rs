//! The account from which attacks come, and its data.

use crate::PROGRAM;
use test_support::{Account, Client, statuses, transact};

pub(crate) struct Attacker {
    pub(crate) address: String,
    pub(crate) account: Account,
    pub(crate) accounts: String,
}

impl Attacker {
    pub(crate) fn client(&self) -> Client {
        Client::connect_as(&self.address, &self.account).unwrap()
    }

    pub(crate) fn create_table(&self, table: &str) {
        let body = format!("{{\"TableName\":\"{table}\"}}");
        assert_eq!(self.client().request("POST", "/Tables", &[], body.as_bytes()).status, 201);
    }

    pub(crate) fn fill(&self, table: &str, partition: &str, rows: &[String]) {
        self.create_table(table);
        let mut client = self.client();
        for rows in rows.chunks(100) {
            let insert = |row: &String| {
                let entity = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}");
                let head = format!("POST /{table} HTTP/1.1\r\nPrefer: return-no-content");
                format!("{head}\r\nContent-Type: application/json\r\n\r\n{entity}")
            };
            let answer = transact(&mut client, &rows.iter().map(insert).collect::<Vec<_>>()).unwrap();
            assert_eq!(statuses(&answer), vec![204; rows.len()]);
        }
    }

    /// Returns the path and query of a request to a table with a signature that only allows adding entities.
    pub(crate) fn signed_target(&self, table: &str) -> String {
        let endpoint = format!("http://{}/{}", self.address, self.account.name);
        let signature = ["table", table, "--permissions", "a", "--expiry", "1h", "--account", &self.account.name];
        let place = ["--accounts", &self.accounts, "--endpoint", &endpoint];
        let made = PROGRAM.folder().run("sas", &[&signature[..], &place].concat(), &[]);
        let url = made.stdout.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        url.strip_prefix(&format!("http://{}", self.address)).unwrap().to_owned()
    }
}

/// Returns the properties of an entity of nearly 1 MiB, as JSON. Each property is the longest possible string of the
/// given character.
pub(super) fn longest_texts(character: &str) -> String {
    let text = character.repeat(32 * 1024);
    let properties: Vec<_> = (0..15).map(|number| format!("\"P{number}\":\"{text}\"")).collect();
    properties.join(",")
}
