//! Requests without a credential (07 §9). `bearer.rs` tests them on a server that accepts tokens.

use crate::Layer::{Authentication, MissingCredential};
use crate::{Case, Server, check};

fn anonymous(method: &'static str, path: &str, version: &str) -> Case {
    Case::new(method, path, "").authorized("").version(version)
}

#[test]
fn nothing_seems_to_exist() {
    let server = Server::with_tables(&["cars"]);
    let not_found = |case: Case| case.fails(404, "ResourceNotFound", MissingCredential);
    // The response is the same for whatever exists and whatever does not, and whichever account the URL names.
    for (method, path) in [
        ("GET", "/Tables"),
        ("POST", "/Tables"),
        ("GET", "/cars()"),
        ("GET", "/other()"),
        ("POST", "/cars"),
        ("GET", "/cars(PartitionKey='p',RowKey='r')"),
        ("DELETE", "/cars(PartitionKey='p',RowKey='r')"),
        ("GET", "/cars?comp=acl"),
        ("GET", "/?restype=service&comp=properties"),
        ("POST", "/$batch"),
        ("GET", "/cars(malformed"),
    ] {
        for version in ["2012-02-12", "2013-08-15", "2019-02-02", "2020-10-02"] {
            check(&server, [not_found(anonymous(method, path, version))]);
        }
    }
    // Recorded for a batch with the second of these headers.
    let batch = |accept: &str| not_found(anonymous("POST", "/$batch", "2019-02-02").with("Accept", accept));
    check(&server, ["", "*/*", "application/xml", "application/json;odata=nometadata"].map(batch));
}

#[test]
fn versions_without_signatures_and_versions_with_challenges() {
    let server = Server::with_tables(&["cars"]);
    let malformed = anonymous("GET", "/cars()", "nonsense").answers(403, "AuthenticationFailed");
    check(&server, [malformed]);
    // This server accepts no tokens, so there is nothing that a challenge could name.
    for version in ["", "2009-09-19", "2011-08-18", "2020-12-06", "2026-06-06"] {
        for path in ["/cars()", "/other()", "/$batch"] {
            let case = anonymous("GET", path, version);
            for case in [case.clone(), case.without("Accept")] {
                check(&server, [case.fails(403, "AuthenticationFailed", Authentication)]);
            }
        }
    }
}
