//! Programs that must not build, each with the messages of the compiler beside it.
//!
//! The messages of the macro are our own; others are those of the compiler, and change with its versions. So they are compared with
//! one version of it only. After an update, `TRYBUILD=overwrite cargo test -p rowhouse-client --test derive refused` writes
//! them anew; read the difference, and change the version here.

use std::env;
use std::io::Write;
use std::process::Command;

/// The version of the compiler whose messages are recorded.
const VERSION: &str = "rustc 1.95.";

#[test]
fn wrong_programs_do_not_build_and_the_messages_say_why() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = String::from_utf8(Command::new(rustc).arg("--version").output().unwrap().stdout).unwrap();
    if !version.starts_with(VERSION) && env::var_os("TRYBUILD").is_none() {
        writeln!(std::io::stderr(), "the messages of {VERSION}* are recorded, and this is {version}: not compared")
            .unwrap();
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/derive/refused/*.rs");
}
