//! Tests of test accounts: the data of each account is separate, and is deleted with the account.

use super::snapshots::{restore, take};
use super::*;

#[test]
fn fresh_accounts_share_nothing() {
    let server = server();
    let ((one_name, mut one), (other_name, mut other)) =
        (new_account(&server, &json!({})), new_account(&server, &Value::Null));
    assert_ne!(one_name, other_name);
    for client in [&mut one, &mut other, &mut server.client()] {
        assert!(tables(client).is_empty());
        create_table(client, "Trees");
    }
    insert(&mut one, "Trees", "1");
    assert_eq!((rows(&mut one, "Trees"), rows(&mut other, "Trees")), (vec!["1".to_owned()], vec![]));
    // The key of one account is invalid for the other account.
    let stolen = Account::new(&other_name, test_support::KEY);
    assert_eq!(server.client_of(&stolen).request("GET", "/Tables", &[], b"").status, 403);
}

#[test]
fn an_account_goes_with_its_data() {
    let server = server();
    let (_, mut client) = new_account(&server, &json!({ "name": "orchard" }));
    create_table(&mut client, "Trees");
    assert_eq!(refused(&server, "POST", "accounts", &json!({ "name": "orchard" })), 409);
    done(&server, "DELETE", "accounts/orchard", &Value::Null);
    assert_eq!(client.request("GET", "/Tables", &[], b"").status, 403);
    assert_eq!(refused(&server, "DELETE", "accounts/orchard", &Value::Null), 404);
    let (_, mut client) = new_account(&server, &json!({ "name": "orchard" }));
    assert!(tables(&mut client).is_empty(), "a new account with the same name must be empty");
}

#[test]
fn a_later_account_of_the_name_gets_nothing_from_snapshots() {
    let server = server();
    let (_, mut client) = new_account(&server, &json!({ "name": "orchard" }));
    let (_, mut other) = new_account(&server, &json!({ "name": "meadow" }));
    create_table(&mut client, "Trees");
    create_table(&mut other, "Trees");
    let snapshot = take(&server);
    done(&server, "DELETE", "accounts/orchard", &Value::Null);
    let (_, mut client) = new_account(&server, &json!({ "name": "orchard" }));
    restore(&server, &snapshot);
    assert!(tables(&mut client).is_empty());
    assert_eq!(tables(&mut other), ["Trees"]);
}

#[test]
fn a_later_account_of_the_name_has_no_changes_that_are_not_in_effect_yet() {
    let server = PROGRAM.start(&["--in-memory", "--test-controls", "--rehearse", "deletion=60s"]);
    let (_, mut client) = new_account(&server, &json!({ "name": "orchard" }));
    let (_, mut other) = new_account(&server, &json!({ "name": "meadow" }));
    for client in [&mut client, &mut other] {
        create_table(client, "Trees");
        assert_eq!(client.request("DELETE", "/Tables('Trees')", &[], b"").status, 204);
    }
    done(&server, "DELETE", "accounts/orchard", &Value::Null);
    let (_, mut client) = new_account(&server, &json!({ "name": "orchard" }));
    create_table(&mut client, "Trees");
    let body = json!({ "TableName": "Trees" }).to_string();
    assert_eq!(other.request("POST", "/Tables", &[], body.as_bytes()).status, 409, "other accounts keep their changes");
}

#[test]
fn a_file_of_accounts_is_read_at_the_start_only() {
    let folder = PROGRAM.folder();
    let file = folder.path("accounts");
    let account = |name: &str| format!("[[account]]\nname = \"{name}\"\nkey1 = \"{}\"\n", test_support::KEY);
    std::fs::write(&file, account("orchard")).unwrap();
    let server = PROGRAM.start(&["--in-memory", "--test-controls", "--accounts", &file]);
    std::fs::write(&file, account("meadow")).unwrap();
    for _ in 0..2 {
        server.signal("HUP");
        server.wait_for_log("only at startup");
    }
    let statuses = ["orchard", "meadow"].map(|name| {
        server.client_of(&Account::new(name, test_support::KEY)).request("GET", "/Tables", &[], b"").status
    });
    assert_eq!(statuses, [200, 403]);
}

#[test]
fn accounts_survive_a_restore_and_not_a_reset() {
    let server = server();
    let snapshot = take(&server);
    let (name, mut client) = new_account(&server, &json!({}));
    create_table(&mut client, "Trees");
    restore(&server, &snapshot);
    assert!(tables(&mut client).is_empty(), "the snapshot has no data of the account");
    reset(&server);
    assert_eq!(client.request("GET", "/Tables", &[], b"").status, 403);
    assert_eq!(refused(&server, "DELETE", &format!("accounts/{name}"), &Value::Null), 404);
    assert_ne!(new_account(&server, &json!({})).0, name, "a name is never reused");
}

#[test]
fn names_are_those_of_accounts_and_the_first_accounts_stay() {
    let server = server();
    let names = ["ab", "Orchard", "or-chard", "", "a-name-that-is-far-too-long-for-an-account"];
    let bodies = names
        .map(|name| json!({ "name": name }))
        .into_iter()
        .chain([json!({ "name": 5 }), json!({ "nam": "orchard" })]);
    for body in bodies {
        assert_eq!(refused(&server, "POST", "accounts", &body), 400, "{body}");
    }
    assert_eq!(refused(&server, "POST", "accounts", &json!({ "name": test_support::ACCOUNT })), 409);
    assert_eq!(refused(&server, "DELETE", &format!("accounts/{}", test_support::ACCOUNT), &Value::Null), 409);
    assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200);
}
