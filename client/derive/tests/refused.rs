//! Programs that must not compile, each with the expected compiler messages next to it. Messages change between
//! versions of the compiler, so only one version is compared. After an update, run `TRYBUILD=overwrite cargo test -p
//! rowhouse-client-derive --test refused`, review the differences, and change the version here.
//!
//! The library `trybuild` compiles all dependencies of this package's tests a second time. The tests of the client
//! library depend on the server, so this test would take minutes there.
#![deny(warnings, missing_docs)]
#![forbid(unsafe_code)]

use std::env;
use std::io::Write;
use std::process::Command;

const VERSION: &str = "rustc 1.95.";

#[test]
fn wrong_programs_do_not_build_and_the_messages_say_why() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = String::from_utf8(Command::new(rustc).arg("--version").output().unwrap().stdout).unwrap();
    if !version.starts_with(VERSION) && env::var_os("TRYBUILD").is_none() {
        writeln!(std::io::stderr(), "the messages were recorded with {VERSION}*, but this is {version}: not compared")
            .unwrap();
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/refused/*.rs");
}
