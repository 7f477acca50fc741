//! Tests of a server that runs as a process.

use super::*;
use rowhouse_testing::{ProgramBuilder, ProgramServer};
use std::env;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Returns the program of this build. If a run of only this package has not built it, builds it.
fn program() -> ProgramBuilder {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let path = PROGRAM.get_or_init(|| {
        let tests = env::current_exe().unwrap();
        let folder = tests.parent().unwrap().parent().unwrap();
        let path = folder.join(format!("rowhouse{}", env::consts::EXE_SUFFIX));
        if !path.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--locked", "--package", "rowhouse-tables", "--bin", "rowhouse"]);
            build.arg("--target-dir").arg(folder.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
            build.env_remove("RUSTC_BOOTSTRAP");
            assert!(build.status().unwrap().success(), "the program cannot be built");
        }
        path
    });
    TestServer::program().executable(path)
}

fn client(server: &ProgramServer) -> Client {
    Client::connect(&server.address().to_string()).unwrap()
}

fn tables(server: &ProgramServer) -> usize {
    client(server).request("GET", "/Tables", &[], b"").json().get("value").unwrap().as_array().unwrap().len()
}

fn create(server: &ProgramServer, table: &str) -> u16 {
    client(server).request("POST", "/Tables", &[], json!({ "TableName": table }).to_string().as_bytes()).status
}

#[test]
fn a_program_serves_the_accounts_that_it_names() {
    let server = program().start_blocking().unwrap();
    assert_eq!(server.endpoint(), format!("http://{}/devstoreaccount1", server.address()));
    assert!(server.connection_string().contains(rowhouse_testing::DEVELOPMENT_KEY));
    assert_eq!(create(&server, "Trees"), 201);
    let account = server.new_account().unwrap();
    assert_eq!(account.endpoint, format!("http://{}/{}", server.address(), account.name));
    assert!(account.connection_string.contains(&account.key));
    server.stop().unwrap();
}

#[test]
fn a_test_controls_the_clock_and_the_data_of_a_program() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let server = runtime.block_on(program().start()).unwrap();
    server.clock().set(july(0)).unwrap();
    server.clock().advance(Duration::from_millis(1500)).unwrap();
    assert_eq!(server.clock().now().unwrap(), july(0) + Duration::from_millis(1500));
    assert!(server.clock().is_stopped().unwrap());
    server.clock().resume().unwrap();
    assert!(!server.clock().is_stopped().unwrap());
    server.clock().pause().unwrap();
    assert_eq!(server.clock().now().unwrap(), server.clock().now().unwrap());
    server.clock().reset().unwrap();
    assert!(server.clock().now().unwrap() < july(0));

    assert_eq!(create(&server, "Trees"), 201);
    let snapshot = server.snapshot().unwrap();
    assert_eq!(create(&server, "Shrubs"), 201);
    assert_eq!(tables(&server), 2);
    server.restore(&snapshot).unwrap();
    assert_eq!(tables(&server), 1);
    server.reset().unwrap();
    assert_eq!(tables(&server), 0);
    let error = server.restore(&snapshot).unwrap_err().to_string();
    assert!(error.contains("/test/snapshots/1/restore") && error.contains("404"), "{error}");
}

#[test]
fn nothing_is_left_once_a_program_is_dropped() {
    let server = program().start_blocking().unwrap();
    let address = server.address();
    drop(server);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_program_that_cannot_start_says_why() {
    let error = program().argument("--no-such-option").start_blocking().unwrap_err().to_string();
    assert!(error.contains("rowhouse did not start") && error.contains("--no-such-option"), "{error}");
    let missing = TestServer::program().executable("/no/such/program").start_blocking().unwrap_err().to_string();
    assert!(missing.contains("/no/such/program is missing") && missing.contains("ROWHOUSE_BINARY"), "{missing}");
}

#[test]
fn a_program_takes_arguments_and_has_a_log() {
    let server = program().argument("--log=rowhouse::access=debug").rehearse("all").start_blocking().unwrap();
    assert_ne!(client(&server).request("GET", "/Tables", &[], b"").status, 404);
    test_support::eventually("the log of the request", || server.log().contains("/Tables").then_some(()));
}
