//! Tests of snapshots: restoring a snapshot restores all data in all accounts, and never a part of a transaction.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use test_support::bank::{Clerk, Progress, check_sums, open_bank};
use test_support::content::{exact_snapshot, set_properties};

pub(super) fn take(server: &Server) -> String {
    done(server, "POST", "snapshots", &json!({}))["snapshot"].as_str().unwrap().to_owned()
}

pub(super) fn restore(server: &Server, snapshot: &str) {
    done(server, "POST", &format!("snapshots/{snapshot}/restore"), &json!({}));
}

#[test]
fn a_return_brings_back_tables_entities_policies_and_properties_of_all_accounts() {
    let server = server();
    let (mut first, (_, mut second)) = (server.client(), new_account(&server, &json!({})));
    let change = |client: &mut Client, id: &str| {
        insert(client, "Trees", id);
        let policies =
            format!("<SignedIdentifiers><SignedIdentifier><Id>{id}</Id></SignedIdentifier></SignedIdentifiers>");
        let xml = [("Content-Type", "application/xml")];
        assert_eq!(client.request("PUT", "/Trees?comp=acl", &xml, policies.as_bytes()).status, 204);
        set_properties(client, &format!("https://{id}.example"));
    };
    for client in [&mut first, &mut second] {
        create_table(client, "Trees");
        change(client, "before");
    }
    let (snapshot, before) = (take(&server), exact_snapshot(&server));
    for client in [&mut first, &mut second] {
        create_table(client, "Shrubs");
        change(client, "after");
        let deleted = client.request("DELETE", "/Trees(PartitionKey='p',RowKey='before')", &[("If-Match", "*")], b"");
        assert_eq!(deleted.status, 204);
    }
    assert_eq!(first.request("DELETE", "/Tables('Trees')", &[], b"").status, 204);
    for _ in 0..2 {
        restore(&server, &snapshot);
        assert_eq!(exact_snapshot(&server), before, "with the earlier ETags");
        assert_eq!((tables(&mut second), rows(&mut second, "Trees")), (vec!["Trees".into()], vec!["before".into()]));
        for (path, text) in [("/Trees?comp=acl", "before"), ("/?restype=service&comp=properties", "before.example")] {
            let answer = second.request("GET", path, &[], b"");
            assert!(String::from_utf8(answer.body).unwrap().contains(text), "{path}");
        }
        insert(&mut second, "Trees", "lost when the snapshot is restored");
    }
}

#[test]
fn no_etag_from_before_a_return_comes_again() {
    let server = server();
    let mut client = server.client();
    create_table(&mut client, "Trees");
    done(&server, "PUT", "clock", &json!({ "now": "2031-07-01T08:00:00Z" }));
    let snapshot = take(&server);
    let before = insert(&mut client, "Trees", "1")["odata.etag"].clone();
    restore(&server, &snapshot);
    let after = insert(&mut client, "Trees", "1")["odata.etag"].clone();
    assert_ne!(before, after, "even with a stopped clock");
}

#[test]
fn concurrent_transactions_are_kept_or_lost_as_a_whole() {
    let server = server();
    let mut client = server.client();
    open_bank(&mut client);
    let (snapshot, before) = (take(&server), exact_snapshot(&server));
    let mut clerks: Vec<_> = (0..3).map(|number| Clerk::new(number, number)).collect();
    let (progress, is_over) = (Progress::of(&clerks), AtomicBool::new(false));
    thread::scope(|scope| {
        for clerk in &mut clerks {
            scope.spawn(|| clerk.work_through_faults(&server.address, &is_over));
        }
        for _ in 0..50 {
            progress.wait(3);
            check_sums(&mut client);
            restore(&server, &snapshot);
            check_sums(&mut client);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    restore(&server, &snapshot);
    assert_eq!(exact_snapshot(&server), before);
}

#[test]
fn a_reset_returns_to_the_start() {
    let server = server();
    let mut client = server.client();
    create_table(&mut client, "Trees");
    let snapshot = take(&server);
    assert_eq!(done(&server, "GET", "snapshots", &Value::Null), json!({ "snapshots": [snapshot] }));
    reset(&server);
    assert!(tables(&mut client).is_empty());
    assert_eq!(done(&server, "GET", "snapshots", &Value::Null), json!({ "snapshots": [] }));
    assert_eq!(refused(&server, "POST", &format!("snapshots/{snapshot}/restore"), &json!({})), 404);
    assert_ne!(take(&server), snapshot, "a name is never reused");
}

#[test]
fn snapshots_are_independent_and_go_when_they_are_deleted() {
    let server = server();
    let mut client = server.client();
    create_table(&mut client, "Trees");
    let snapshots: Vec<String> = ["1", "2", "3"]
        .iter()
        .map(|row| {
            insert(&mut client, "Trees", row);
            take(&server)
        })
        .collect();
    assert_eq!(done(&server, "GET", "snapshots", &Value::Null), json!({ "snapshots": snapshots }));
    for count in [2, 3, 1] {
        restore(&server, &snapshots[count - 1]);
        assert_eq!(rows(&mut client, "Trees").len(), count);
    }
    done(&server, "DELETE", &format!("snapshots/{}", snapshots[0]), &Value::Null);
    assert_eq!(refused(&server, "POST", &format!("snapshots/{}/restore", snapshots[0]), &json!({})), 404);
    restore(&server, &snapshots[1]);
    assert_eq!(rows(&mut client, "Trees").len(), 2);
}
