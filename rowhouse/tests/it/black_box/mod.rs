//! Tests of what the files of a server decide: accounts, keys, certificates, issuers and their roles, and when they
//! change.

mod accounts;
mod bearer;
mod delegation;
mod proxies;
mod settings;
pub(crate) mod tls;

use crate::PROGRAM;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use test_support::{Account, Client, Response, Server};

const ACCOUNT: &str = "orchard";

pub(crate) fn key(number: u8) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode([number; 64])
}

pub(crate) fn account_file(name: &str, key1: &str, key2: &str) -> String {
    format!("[[account]]\nname = \"{name}\"\nkey1 = \"{key1}\"\nkey2 = \"{key2}\"\n")
}

fn start(arguments: &[&str]) -> Server {
    PROGRAM.start(&[&["--in-memory"], arguments].concat())
}

/// Opens a connection as the account `orchard`.
fn client(server: &Server, key: &str) -> Client {
    server.client_of(&Account::new(ACCOUNT, key))
}

/// Returns the status of the response to a list of tables.
pub(crate) fn list(client: &mut Client) -> u16 {
    client.request("GET", "/Tables", &[], b"").status
}

pub(crate) fn exchange(client: &mut Client, request: &str) -> Response {
    client.send(request.as_bytes()).unwrap();
    client.receive().unwrap()
}

fn refusal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = PROGRAM.serve(&[&["--in-memory"], arguments].concat());
    let Output { status, stdout, stderr } = command.envs(environment.iter().copied()).output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert!(matches!(status.code(), Some(1 | 2)), "{arguments:?} exited with {status}: {message}");
    assert!(stdout.is_empty(), "nothing must be announced");
    message
}

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Replaces a file atomically, as careful programs do.
    pub(crate) fn replace(&self, name: &str, content: &str) {
        std::fs::rename(self.write("new", content), self.path(name)).unwrap();
    }
}
