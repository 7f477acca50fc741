//! Tests of cloud behaviour that takes effect after a delay. The clock of the test server makes each delay exact.

use super::*;

fn start(rehearsal: &str) -> Result<TestServer, rowhouse_testing::Error> {
    let server = TestServer::builder().rehearse(rehearsal).start_blocking()?;
    server.clock().set(july(0));
    Ok(server)
}

/// Returns the value just before the given number of seconds has passed, and just after.
fn before_and_after<T>(server: &TestServer, seconds: u64, mut look: impl FnMut() -> T) -> (T, T) {
    server.clock().advance(Duration::new(seconds - 1, 999_999_900));
    let before = look();
    server.clock().advance(Duration::from_nanos(100));
    (before, look())
}

#[test]
fn a_name_is_free_forty_seconds_after_its_deletion() {
    let server = start("deletion").unwrap();
    let mut client = DatedClient::new(&server);
    client.create_table("Trees");
    assert_eq!(client.request("DELETE", "/Tables('Trees')", &Value::Null).status, 204);
    let create = || client.request("POST", "/Tables", &json!({ "TableName": "Trees" })).status;
    assert_eq!(before_and_after(&server, 40, create), (409, 201));
}

#[test]
fn properties_and_policies_are_in_effect_after_thirty_seconds() {
    let server = start("properties,policies").unwrap();
    let mut client = DatedClient::new(&server);
    client.create_table("Trees");
    let set = |client: &mut DatedClient<'_>, path: &str, body: &str| {
        let date = httpdate::fmt_http_date(server.clock().now());
        let headers = [("x-ms-date", date.as_str()), ("Content-Type", "application/xml")];
        client.client.request("PUT", path, &headers, body.as_bytes()).status
    };
    let properties = "/?restype=service&comp=properties";
    let logging = "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read><Write>false\
                   </Write><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging></StorageServiceProperties>";
    assert_eq!(set(&mut client, properties, logging), 202);
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>readers</Id><AccessPolicy><Expiry>2099-01-01T00:00:00Z</Expiry>\
                    <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    assert_eq!(set(&mut client, "/Trees?comp=acl", policies), 204);
    let fields = wire::sas::Fields {
        version: "2019-02-02".into(),
        table: "trees".into(),
        policy: "readers".into(),
        ..wire::sas::Fields::default()
    };
    let key = wire::signing::AccountKey::parse(rowhouse_testing::DEVELOPMENT_KEY).unwrap();
    let token = fields.sign(rowhouse_testing::DEVELOPMENT_ACCOUNT, &key).unwrap();
    let look = || {
        let shown = client.request("GET", properties, &Value::Null);
        let deletes = String::from_utf8(shown.body).unwrap().contains("<Delete>true</Delete>");
        (deletes, anonymous(&server, &format!("/Trees()?{token}")))
    };
    assert_eq!(before_and_after(&server, 30, look), ((false, 403), (true, 200)));
}

#[test]
fn what_is_not_in_effect_yet_goes_with_the_data() {
    let server = TestServer::builder().rehearse("deletion").start_blocking().unwrap();
    let beginning = server.snapshot().unwrap();
    let backs: [&dyn Fn() -> _; 2] = [&|| server.restore(&beginning), &|| server.reset()];
    for back in backs {
        let mut client = DatedClient::new(&server);
        client.create_table("Trees");
        assert_eq!(client.request("DELETE", "/Tables('Trees')", &Value::Null).status, 204);
        let mut create = || client.request("POST", "/Tables", &json!({ "TableName": "Trees" })).status;
        assert_eq!(create(), 409);
        back().unwrap();
        assert_eq!(create(), 201);
        back().unwrap();
    }
}

#[test]
fn targets_of_a_rehearsal_give_way_to_those_that_are_set() {
    let server = TestServer::builder().rehearse("targets").throttle(1, 1).start_blocking().unwrap();
    let mut client = DatedClient::new(&server);
    let statuses: Vec<_> = (0..20).map(|_| client.request("GET", "/Tables", &Value::Null).status).collect();
    assert!(statuses.contains(&503), "{statuses:?}");
}

#[test]
fn a_list_that_is_not_one_keeps_the_server_from_starting() {
    let error = start("rain").unwrap_err();
    let chain = format!("{error} {:?}", std::error::Error::source(&error));
    assert!(chain.contains("there is no condition \"rain\""), "{chain}");
}
