//! Tests of the clock that a test sets: what depends on the clock, and that clients still work with the real time.

use super::*;

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
