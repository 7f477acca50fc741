//! Tests of the clock that a test sets: what depends on the clock, and that clients still work with the real time.

use super::*;
use wire::sas::Fields;
use wire::signing::AccountKey;

fn set(server: &Server, change: &Value) -> Value {
    done(server, "PUT", "clock", change)
}

fn timestamp(client: &mut Client, row: &str) -> String {
    insert(client, "Trees", row)["Timestamp"].as_str().unwrap().to_owned()
}

#[test]
fn the_clock_is_set_moved_stopped_and_let_go() {
    let server = server();
    let real = done(&server, "GET", "clock", &Value::Null);
    assert_eq!(real["stopped"], false);
    assert_eq!(real["now"].as_str().unwrap().len(), "2031-07-01T08:00:00.0000000Z".len());
    let eight = json!({ "now": "2031-07-01T08:00:00.0000000Z", "stopped": true });
    assert_eq!(set(&server, &json!({ "now": "2031-07-01T08:00:00Z" })), eight);
    assert_eq!(done(&server, "GET", "clock", &Value::Null), eight);
    assert_eq!(set(&server, &json!({ "advanceSeconds": 3600.5 }))["now"], "2031-07-01T09:00:00.5000000Z");
    let running = set(&server, &json!({ "now": "2031-07-01T10:00:00+02:00", "advanceSeconds": 60, "stopped": false }));
    assert_eq!(running["stopped"], false);
    assert!(running["now"].as_str().unwrap().starts_with("2031-07-01T08:01:0"), "{running}");
    assert_eq!(set(&server, &json!({ "stopped": true }))["stopped"], true);
    let back = set(&server, &json!({ "system": true }));
    assert_eq!(
        (back["stopped"].as_bool(), &back["now"].as_str().unwrap()[..4]),
        (Some(false), &real["now"].as_str().unwrap()[..4])
    );
    let end = json!({ "now": "9999-12-30T23:59:59.9999999Z", "stopped": false });
    assert_eq!(set(&server, &json!({ "advanceSeconds": 1e300 })), end);
    assert_eq!(set(&server, &json!({ "now": "9999-12-31T23:59:59Z" }))["now"], end["now"]);
    for wrong in [
        json!({}),
        json!({ "now": "today" }),
        json!({ "now": "1500-01-01T00:00:00Z" }),
        json!({ "advanceSeconds": -1 }),
        json!({ "advanceSeconds": "1" }),
        json!({ "system": true, "stopped": true }),
        json!({ "stop": true }),
        json!([]),
    ] {
        assert_eq!(refused(&server, "PUT", "clock", &wrong), 400, "{wrong}");
    }
}

#[test]
fn the_date_of_responses_follows_the_clock_forward_and_back() {
    let server = server();
    let mut client = server.client();
    for (now, date) in [
        ("2031-07-01T08:00:00Z", "Tue, 01 Jul 2031 08:00:00 GMT"),
        ("2041-07-01T08:00:00Z", "Mon, 01 Jul 2041 08:00:00 GMT"),
        ("2031-06-30T23:59:59Z", "Mon, 30 Jun 2031 23:59:59 GMT"),
        ("1901-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ] {
        set(&server, &json!({ "now": now, "stopped": true }));
        for path in ["/Tables", "/missing"] {
            let answer = client.request("GET", path, &[], b"");
            assert_eq!(answer.header("date"), Some(date), "{path} at {now}");
        }
    }
}

#[test]
fn account_keys_work_with_the_real_time_and_timestamps_follow_the_clock() {
    let server = server();
    let mut client = server.client();
    create_table(&mut client, "Trees");
    set(&server, &json!({ "now": "2041-07-01T08:00:00Z" }));
    // The test client dates its requests with the real time.
    assert_eq!(timestamp(&mut client, "1"), "2041-07-01T08:00:00Z");
    assert_eq!(timestamp(&mut client, "2"), "2041-07-01T08:00:00.0000001Z");
    // A client that uses the time of the server's clock also works, but a client with any other time does not.
    let mut listed = |date| client.request("GET", "/Tables", &[("x-ms-date", date)], b"").status;
    assert_eq!([listed("Mon, 01 Jul 2041 08:14:59 GMT"), listed("Mon, 01 Jul 2041 08:15:01 GMT")], [200, 403]);
    assert_eq!(listed("Sat, 01 Jul 2034 08:00:00 GMT"), 403);
}

#[test]
fn timestamps_never_go_back_in_an_account_and_other_accounts_do_not_notice() {
    let server = server();
    let (_, mut moved) = new_account(&server, &json!({}));
    create_table(&mut moved, "Trees");
    set(&server, &json!({ "now": "2041-07-01T08:00:00Z" }));
    assert_eq!(timestamp(&mut moved, "1"), "2041-07-01T08:00:00Z");
    set(&server, &json!({ "now": "2031-07-01T08:00:00Z" }));
    assert_eq!(timestamp(&mut moved, "2"), "2041-07-01T08:00:00.0000001Z");
    let (_, mut other) = new_account(&server, &json!({}));
    create_table(&mut other, "Trees");
    assert_eq!(timestamp(&mut other, "1"), "2031-07-01T08:00:00Z");
}

#[test]
fn a_reset_lets_the_clock_go_and_timestamps_begin_again() {
    let server = server();
    create_table(&mut server.client(), "Trees");
    set(&server, &json!({ "now": "2041-07-01T08:00:00Z" }));
    assert!(timestamp(&mut server.client(), "1").starts_with("2041"));
    reset(&server);
    assert_eq!(done(&server, "GET", "clock", &Value::Null)["stopped"], false);
    create_table(&mut server.client(), "Trees");
    assert!(!timestamp(&mut server.client(), "1").starts_with("2041"));
}

#[test]
fn a_shared_access_signature_expires_when_the_clock_is_moved() {
    let server = server();
    create_table(&mut server.client(), "Trees");
    let fields = Fields {
        version: "2019-02-02".into(),
        table: "Trees".into(),
        permissions: "r".into(),
        expiry: "2041-07-01T10:00:00Z".into(),
        ..Fields::default()
    };
    let token = fields.sign(test_support::ACCOUNT, &AccountKey::parse(test_support::KEY).unwrap()).unwrap();
    let status = || {
        let mut client = server.client();
        let head = format!(
            "GET /{}/Trees()?{token} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n",
            test_support::ACCOUNT
        );
        client.send(head.as_bytes()).unwrap();
        client.receive_head().unwrap().status
    };
    assert_eq!(status(), 200);
    set(&server, &json!({ "now": "2041-07-01T09:59:00Z" }));
    assert_eq!(status(), 200);
    set(&server, &json!({ "advanceSeconds": 3600 }));
    assert_eq!(status(), 403);
    assert_eq!(server.client().request("GET", "/Trees()", &[], b"").status, 200, "the account key still works");
    set(&server, &json!({ "system": true }));
    assert_eq!(status(), 200);
}
