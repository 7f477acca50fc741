//! Tests of changes that take effect with a delay: deletions, service properties, stored access policies.
//!
//! The tests here use short times to check that a change eventually takes effect. `testing/tests` checks the times to
//! the second with a controlled clock.

use super::*;
use test_support::{ACCOUNT, KEY, eventually, transact};
use wire::sas::Fields;
use wire::signing::AccountKey;

const PROPERTIES: &str = "/?restype=service&comp=properties";

#[test]
fn the_name_of_a_deleted_table_is_not_free() {
    let (_server, mut client) = rehearsing("deletion=60m");
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    assert_eq!(insert(&mut client, "a", "1").status, 201);
    assert_eq!(client.request("DELETE", "/Tables('harvest')", &[], b"").status, 204);
    for name in ["harvest", "HARVEST"] {
        let again = create_table(&mut client, name);
        assert_eq!((again.status, code(&again)), (409, Some("TableBeingDeleted")));
        assert_eq!(again.header("cache-control"), Some("no-cache"));
        let message = again.json()["odata.error"]["message"]["value"].as_str().unwrap().to_owned();
        assert!(message.starts_with("The specified table is being deleted. Try operation later."), "{message}");
    }
    // In the meantime, the table does not exist for any operation.
    let entity = "/harvest(PartitionKey='a',RowKey='1')";
    for (method, path) in [("GET", "/harvest()"), ("GET", entity), ("PUT", entity), ("GET", "/harvest?comp=acl")] {
        let answer = client.request(method, path, &[], b"{}");
        assert_eq!((answer.status, code(&answer)), (404, Some("TableNotFound")), "{method} {path}");
    }
    assert_eq!(client.request("DELETE", "/Tables('harvest')", &[], b"").status, 404);
    assert!(client.request("GET", "/Tables", &[], b"").json()["value"].as_array().unwrap().is_empty());
    let upsert =
        format!("PUT {entity} HTTP/1.1\r\nAccept: application/json\r\nContent-Type: application/json\r\n\r\n{{}}");
    let batch = transact(&mut client, &[upsert]).unwrap();
    assert!(String::from_utf8(batch.body).unwrap().contains("TableNotFound"));
    assert_eq!(create_table(&mut client, "other").status, 201);
}

#[test]
fn a_deletion_comes_to_its_end() {
    let (_server, mut client) = rehearsing("deletion=200ms");
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    assert_eq!(client.request("DELETE", "/Tables('harvest')", &[], b"").status, 204);
    eventually("the name", || (create_table(&mut client, "harvest").status == 201).then_some(()));
}

#[test]
fn service_properties_are_the_earlier_ones_for_a_while() {
    let set = |client: &mut Client| {
        let rule = "<CorsRule><AllowedOrigins>https://a.example</AllowedOrigins><AllowedMethods>GET</AllowedMethods>\
                    <AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>";
        let body = format!("<StorageServiceProperties><Cors>{rule}</Cors></StorageServiceProperties>");
        client.request("PUT", PROPERTIES, &[("Content-Type", "application/xml")], body.as_bytes()).status
    };
    let is_in_effect = |client: &mut Client| {
        let shown = String::from_utf8(client.request("GET", PROPERTIES, &[], b"").body).unwrap();
        let preflight = format!(
            "OPTIONS /{ACCOUNT}/harvest HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://a.example\r\n\
             Access-Control-Request-Method: GET\r\n\r\n"
        );
        client.send(preflight.as_bytes()).unwrap();
        (shown.contains("https://a.example"), client.receive().unwrap().status)
    };
    let (_server, mut client) = rehearsing("properties=60m");
    assert_eq!(set(&mut client), 202);
    assert_eq!(is_in_effect(&mut client), (false, 403));
    let (_server, mut client) = rehearsing("properties=200ms");
    assert_eq!(set(&mut client), 202);
    eventually("the rule", || (is_in_effect(&mut client) == (true, 200)).then_some(()));
}

#[test]
fn a_policy_is_shown_at_once_and_allows_nothing_for_a_while() {
    let set = |client: &mut Client| {
        let policy = "<SignedIdentifier><Id>readers</Id><AccessPolicy><Expiry>2099-01-01T00:00:00Z</Expiry><Permission>r\
                      </Permission></AccessPolicy></SignedIdentifier>";
        let body = format!("<SignedIdentifiers>{policy}</SignedIdentifiers>");
        let headers = [("Content-Type", "application/xml")];
        assert_eq!(client.request("PUT", "/harvest?comp=acl", &headers, body.as_bytes()).status, 204);
    };
    let read = |client: &mut Client| {
        let fields = Fields {
            version: "2019-02-02".into(),
            table: "harvest".into(),
            policy: "readers".into(),
            ..Fields::default()
        };
        let token = fields.sign(ACCOUNT, &AccountKey::parse(KEY).unwrap()).unwrap();
        let head =
            format!("GET /{ACCOUNT}/harvest()?{token} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        client.receive().unwrap().status
    };
    let (_server, mut client) = rehearsing("policies=60m");
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    set(&mut client);
    assert_eq!(read(&mut client), 403);
    let shown = client.request("GET", "/harvest?comp=acl", &[], b"");
    assert!(String::from_utf8(shown.body).unwrap().contains("readers"));
    let (_server, mut client) = rehearsing("policies=200ms");
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    set(&mut client);
    eventually("the policy", || (read(&mut client) == 200).then_some(()));
    // The removal of a policy is delayed, too, but only as long as its table exists.
    let (_server, mut client) = rehearsing("policies=200ms");
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    set(&mut client);
    eventually("the policy", || (read(&mut client) == 200).then_some(()));
    assert_eq!(client.request("DELETE", "/Tables('harvest')", &[], b"").status, 204);
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    assert_eq!(read(&mut client), 403);
}
