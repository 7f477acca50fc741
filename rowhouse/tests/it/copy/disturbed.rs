//! Tests of copies with busy services and broken connections.

use crate::PROGRAM;
use std::sync::atomic::Ordering;
use test_support::command::endpoint;
use test_support::content::{fill, fill_with_everything, snapshot};
use test_support::proxy::Proxy;

#[test]
fn busy_services_and_broken_connections_do_no_harm() {
    let folder = PROGRAM.folder();
    let (from, to) = (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--in-memory"]));
    fill_with_everything(&from);
    fill(&from, "scattered", 100, 2);
    fill(&from, "deep", 2, 2000);
    let (source, target) = (Proxy::start(&from.address, 4), Proxy::start(&to.address, 8));
    folder.copy_successfully(&["--from", &endpoint(&source.address), "--to", &endpoint(&target.address)]);
    assert_eq!(snapshot(&to), snapshot(&from));
    for counts in [&source.counts, &target.counts] {
        for counter in [&counts.busy, &counts.dropped_requests, &counts.dropped_answers] {
            assert!(counter.load(Ordering::Relaxed) > 0, "{counts:?}");
        }
    }
}

#[test]
fn an_unreachable_service_is_reported() {
    let folder = PROGRAM.folder();
    // Nothing listens on this port.
    let told = folder.copy_error(&["--from", &endpoint("127.0.0.1:1"), "--to", "to"]);
    assert!(told.contains("listing the tables got no response after 10 attempts"), "{told}");
    assert!(folder.states("copy").is_empty());
}
