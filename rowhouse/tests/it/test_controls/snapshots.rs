//! Tests of snapshots: restoring a snapshot restores all data in all accounts, and never a part of a transaction.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use test_support::content::{exact_snapshot, set_properties};
use test_support::{statuses, transact};

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
fn concurrent_batches_are_kept_or_lost_as_a_whole() {
    const ROWS: [&str; 5] = ["a", "b", "c", "d", "e"];
    let server = server();
    let upsert = |row: &str, round: u32| {
        let body = json!({ "PartitionKey": "p", "RowKey": row, "Round": round }).to_string();
        format!(
            "PUT http://{}/devstoreaccount1/Trees(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{body}",
            server.address
        )
    };
    create_table(&mut server.client(), "Trees");
    let write = |client: &mut Client, round| {
        let operations: Vec<_> = ROWS.iter().map(|row| upsert(row, round)).collect();
        assert_eq!(statuses(&transact(client, &operations).unwrap()), [204; 5]);
    };
    write(&mut server.client(), 0);
    let snapshot = take(&server);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (is_done, write, address) = (&is_done, &write, server.address.clone());
                scope.spawn(move || {
                    let mut client = Client::connect(&address).unwrap();
                    let mut round = 1 + writer;
                    while !is_done.load(Ordering::Relaxed) {
                        write(&mut client, round);
                        round += 3;
                    }
                    round
                })
            })
            .collect();
        let (mut client, mut seen) = (server.client(), 0);
        let mut check = |client: &mut Client| {
            let page = client.request("GET", "/Trees()", &[], b"").json();
            let rounds: Vec<u64> =
                page["value"].as_array().unwrap().iter().map(|entity| entity["Round"].as_u64().unwrap()).collect();
            assert!(rounds.len() == 5 && rounds.iter().all(|round| *round == rounds[0]), "{rounds:?}");
            seen += usize::from(rounds[0] > 0);
        };
        for _ in 0..150 {
            check(&mut client);
            restore(&server, &snapshot);
            check(&mut client);
        }
        is_done.store(true, Ordering::Relaxed);
        let rounds: Vec<u32> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        assert!(
            seen > 0 && rounds.iter().all(|round| *round > 10),
            "the writers must make progress in the meantime: {seen} {rounds:?}"
        );
    });
    restore(&server, &snapshot);
    let page = server.client().request("GET", "/Trees()", &[], b"").json();
    assert!(page["value"].as_array().unwrap().iter().all(|entity| entity["Round"] == 0), "{page}");
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
