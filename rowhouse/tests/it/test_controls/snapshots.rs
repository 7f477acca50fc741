//! Tests of snapshots: restoring a snapshot restores all data in all accounts, and never a part of a transaction.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use test_support::{statuses, transact};

fn take(server: &Server) -> String {
    done(server, "POST", "snapshots", &json!({}))["snapshot"].as_str().unwrap().to_owned()
}

fn restore(server: &Server, snapshot: &str) {
    done(server, "POST", &format!("snapshots/{snapshot}/restore"), &json!({}));
}

#[test]
fn a_return_brings_back_tables_entities_policies_and_properties_of_all_accounts() {
    let server = server();
    let (mut first, (_, mut second)) = (server.client(), new_account(&server, &json!({})));
    let policy =
        |id: &str| format!("<SignedIdentifiers><SignedIdentifier><Id>{id}</Id></SignedIdentifier></SignedIdentifiers>");
    let xml = [("Content-Type", "application/xml")];
    let properties = |days: u32| {
        format!(
            "<StorageServiceProperties><HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>\
             <RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy></HourMetrics></StorageServiceProperties>"
        )
    };
    let set_properties = |client: &mut Client, days| {
        let answer = client.request("PUT", "/?restype=service&comp=properties", &xml, properties(days).as_bytes());
        assert_eq!(answer.status, 202, "{answer:?}");
    };
    for client in [&mut first, &mut second] {
        create_table(client, "Trees");
        insert(client, "Trees", "1");
        assert_eq!(client.request("PUT", "/Trees?comp=acl", &xml, policy("before").as_bytes()).status, 204);
        set_properties(client, 3);
    }
    let etag = insert(&mut first, "Trees", "2")["odata.etag"].clone();
    let snapshot = take(&server);
    for client in [&mut first, &mut second] {
        create_table(client, "Shrubs");
        insert(client, "Trees", "9");
        assert_eq!(
            client.request("DELETE", "/Trees(PartitionKey='p',RowKey='1')", &[("If-Match", "*")], b"").status,
            204
        );
        assert_eq!(client.request("PUT", "/Trees?comp=acl", &xml, policy("after").as_bytes()).status, 204);
        set_properties(client, 5);
    }
    assert_eq!(first.request("DELETE", "/Tables('Trees')", &[], b"").status, 204);
    for _ in 0..2 {
        restore(&server, &snapshot);
        assert_eq!(
            (rows(&mut first, "Trees"), rows(&mut second, "Trees")),
            (vec!["1".into(), "2".into()], vec!["1".to_owned()])
        );
        for client in [&mut first, &mut second] {
            assert_eq!(tables(client), ["Trees"]);
            let text = |response: Response| String::from_utf8(response.body).unwrap();
            let policies = text(client.request("GET", "/Trees?comp=acl", &[], b""));
            assert!(policies.contains("before") && !policies.contains("after"), "{policies}");
            assert!(
                text(client.request("GET", "/?restype=service&comp=properties", &[], b"")).contains("<Days>3</Days>")
            );
            insert(client, "Trees", "lost when the snapshot is restored");
        }
        let entity = first.request("GET", "/Trees(PartitionKey='p',RowKey='2')", &[], b"").json();
        assert_eq!(entity["odata.etag"], etag, "the entity must have its earlier ETag again");
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
fn a_continuation_token_goes_on_in_the_state_that_is_there() {
    let server = server();
    let mut client = server.client();
    create_table(&mut client, "Trees");
    for row in ["1", "2", "3"] {
        insert(&mut client, "Trees", row);
    }
    let snapshot = take(&server);
    let first = client.request("GET", "/Trees()?$top=1", &[], b"");
    let next = |name: &str| first.header(&format!("x-ms-continuation-{name}")).unwrap().to_owned();
    let rest = format!("/Trees()?NextPartitionKey={}&NextRowKey={}", next("nextpartitionkey"), next("nextrowkey"));
    insert(&mut client, "Trees", "4");
    restore(&server, &snapshot);
    let page = client.request("GET", &rest, &[], b"");
    assert_eq!(page.json()["value"].as_array().unwrap().len(), 2, "{page:?}");
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

#[test]
fn a_rehearsed_deletion_ends_with_the_data_that_it_belongs_to() {
    let server = PROGRAM.start(&["--in-memory", "--test-controls", "--rehearse", "deletion=60s"]);
    let mut client = server.client();
    let snapshot = take(&server);
    for back in [format!("snapshots/{snapshot}/restore").as_str(), "reset"] {
        create_table(&mut client, "Trees");
        assert_eq!(client.request("DELETE", "/Tables('Trees')", &[], b"").status, 204);
        let body = json!({ "TableName": "Trees" }).to_string();
        assert_eq!(client.request("POST", "/Tables", &[], body.as_bytes()).status, 409);
        done(&server, "POST", back, &json!({}));
        create_table(&mut client, "Trees");
        done(&server, "POST", back, &json!({}));
    }
}
