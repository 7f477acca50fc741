//! Tests of refusals of requests with an unread body: a client that sends everything before it reads still gets the
//! response.

use super::client::{Answer, Client, Request, key};
use super::process::Folder;
use super::tls;
use model::limits::REQUEST_BODY_BYTES_MAX;

const SIZES: [usize; 4] = [100_000, 1_000_000, 4_000_000, 13_000_000];

fn check_refusal(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.header("x-ms-error-code")), (status, Some(code)), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"));
}

#[test]
fn refusals_arrive_over_tls() {
    let folder = Folder::new();
    let (server, trusted) = tls::start(&folder, &[]);
    let mut client = Client::tls(server.address, &trusted).unwrap();
    assert_eq!(client.send(Request::create_table(&key(1))).status, 201);
    for size in SIZES {
        let (body, path) = ("x".repeat(size), "/orchard/apples(PartitionKey='p',RowKey='r')");
        let refusal = |number| {
            let request = Request { method: "PUT", path, body: &body, key: &key(number) };
            Client::tls(server.address, &trusted).unwrap().send(request)
        };
        check_refusal(&refusal(3), 403, "AuthenticationFailed");
        if size > 2 * REQUEST_BODY_BYTES_MAX {
            check_refusal(&refusal(1), 413, "RequestBodyTooLarge");
        }
    }
}
