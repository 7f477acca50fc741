//! Tests of the conditions of `--rehearse` on the built server. Each condition is tested separately, with a share of
//! 100% or a long time. All conditions together are tested from a seed, with the client library.

mod pages;
mod programs;
mod requests;
mod settings;
mod start;

use crate::PROGRAM;
use crate::throttling::{create_table, insert};
use test_support::{Client, Response, Server};

fn rehearsing(list: &str) -> (Server, Client) {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0", "--rehearse", list]);
    let client = server.client();
    (server, client)
}

fn code(response: &Response) -> Option<&str> {
    response.header("x-ms-error-code")
}
