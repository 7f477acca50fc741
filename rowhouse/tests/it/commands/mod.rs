//! Tests of `rowhouse table`, `rowhouse entity` and `rowhouse follow` as users run them.

mod accounts;
mod certificate;
mod connection;
mod entity;
mod follow;
mod hostile_service;
mod table;
mod table_settings;

use crate::PROGRAM;
use test_support::Server;
use test_support::command::{CommandResult, Folder};

struct CommandTest {
    folder: Folder,
    server: Server,
    endpoint: String,
}

impl CommandTest {
    fn new() -> Self {
        Self::with(&["--in-memory"])
    }

    fn with(options: &[&str]) -> Self {
        let server = PROGRAM.start(options);
        let endpoint = test_support::command::endpoint(&server.address);
        Self { folder: PROGRAM.folder(), server, endpoint }
    }

    fn run(&self, code: i32, words: &[&str]) -> CommandResult {
        let ran = self.folder.run(words[0], &words[1..], &[("ROWHOUSE_ENDPOINT", &self.endpoint)]);
        assert_eq!(ran.code, Some(code), "{words:?}: {ran:?}");
        ran
    }

    fn prints(&self, words: &[&str]) -> String {
        let ran = self.run(0, words);
        assert_eq!(ran.stderr, "", "{words:?}");
        ran.stdout
    }

    fn says(&self, code: i32, words: &[&str]) -> String {
        let ran = self.run(code, words);
        assert_eq!(ran.stdout, "", "{words:?}");
        ran.stderr.replace(&self.endpoint, "ENDPOINT")
    }
}
