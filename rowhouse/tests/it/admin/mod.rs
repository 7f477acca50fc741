//! Tests of the admin listener of a running server: its responses, metrics, log and traces.

mod endpoints;
mod log;
mod memory;
mod metrics;
pub(crate) mod page;
mod traces;

use std::io::Write;
use std::net::TcpStream;
use test_support::{Server, head};

/// Sends a body of 4 MiB without its last byte. The server keeps it in memory until the connection is dropped, or until
/// the body has made no progress for too long.
fn send_unfinished_body(server: &Server) -> TcpStream {
    let mut connection = TcpStream::connect(&server.address).unwrap();
    connection.write_all(head("POST", "/Cars", &[("Content-Length", "4194304")]).as_bytes()).unwrap();
    connection.write_all(&vec![b' '; 4_194_303]).unwrap();
    connection
}
