use super::*;
use model::DateTime;
use test_support::{ACCOUNT, KEY};
use wire::sas::Fields;
use wire::signing::AccountKey;

const HOUR: Duration = Duration::from_hours(1);

fn tree(row: &str) -> Value {
    json!({ "PartitionKey": "north", "RowKey": row })
}

#[test]
fn timestamps_follow_the_clock_and_grow_while_it_stands_still() {
    for builder in [TestServer::builder(), TestServer::builder().embedded()] {
        let server = builder.start_blocking().unwrap();
        server.clock().set(july(8));
        let mut client = DatedClient::new(&server);
        client.create_table("Trees");
        let mut timestamp = |row| client.insert("Trees", &tree(row))["Timestamp"].as_str().unwrap().to_owned();
        assert_eq!(timestamp("1"), "2031-07-01T08:00:00Z");
        assert_eq!(timestamp("2"), "2031-07-01T08:00:00.0000001Z");
        server.clock().advance(HOUR);
        assert_eq!(timestamp("3"), "2031-07-01T09:00:00Z");
        server.clock().set(july(1));
        assert_eq!(timestamp("4"), "2031-07-01T09:00:00.0000001Z", "a Timestamp never goes back");
    }
}

#[test]
fn the_date_of_a_request_is_held_against_the_clock_and_that_of_the_system() {
    let server = TestServer::start_blocking().unwrap();
    let mut client = DatedClient::new(&server);
    let mut list = |date| client.request_at(date, "GET", "/Tables", &Value::Null).status;
    assert_eq!(list(SystemTime::now()), 200, "the clock follows the system until it is set");
    server.clock().advance(24 * HOUR);
    assert_eq!(list(SystemTime::now()), 200, "clients keep working with their own time");
    assert_eq!([list(SystemTime::now() + 24 * HOUR), list(SystemTime::now() + 12 * HOUR)], [200, 403]);
    server.clock().set(july(0));
    let late = Duration::from_secs(15 * 60 + 1);
    assert_eq!([list(july(0) + late - Duration::from_secs(1)), list(july(0) + late)], [200, 403]);
    assert_eq!([list(SystemTime::now()), list(SystemTime::now() - late)], [200, 403]);
}

#[tokio::test]
async fn a_client_with_the_clock_of_the_server_works_at_any_time() -> Result<(), client::Error> {
    let server = TestServer::start().await.unwrap();
    let service = || client::TableService::builder_from_connection_string(&server.connection_string());
    let service = service()?.clock(server.clock().clone()).build()?;
    for time in [SystemTime::UNIX_EPOCH, july(0), july(1_000_000)] {
        server.clock().set(time);
        assert!(service.tables().all().await?.is_empty());
    }
    Ok(())
}

#[test]
fn a_shared_access_signature_begins_and_expires_by_the_clock() {
    let server = TestServer::start_blocking().unwrap();
    server.clock().set(july(0));
    DatedClient::new(&server).create_table("Trees");
    let fields = Fields {
        version: "2019-02-02".into(),
        table: "Trees".into(),
        permissions: "r".into(),
        start: "2031-07-01T08:00:00Z".into(),
        expiry: "2031-07-01T10:00:00Z".into(),
        ..Fields::default()
    };
    let token = fields.sign(ACCOUNT, &AccountKey::parse(KEY).unwrap()).unwrap();
    let query = || anonymous(&server, &format!("/Trees()?{token}"));
    let statuses = [0, 8, 9, 10, 11].map(|hours| {
        server.clock().set(july(hours));
        query()
    });
    assert_eq!(statuses, [403, 200, 200, 200, 403]);
    server.clock().set(july(9));
    assert_eq!(query(), 200, "the clock may be set back");
}

#[test]
fn a_stored_access_policy_expires_by_the_clock() {
    let server = TestServer::start_blocking().unwrap();
    server.clock().set(july(0));
    let mut client = DatedClient::new(&server);
    client.create_table("Trees");
    let policy = "<SignedIdentifiers><SignedIdentifier><Id>readers</Id><AccessPolicy><Start>2031-07-01T00:00:00Z</Start>\
                  <Expiry>2031-07-01T02:00:00Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier>\
                  </SignedIdentifiers>";
    let date = httpdate::fmt_http_date(july(0));
    let headers = [("x-ms-date", date.as_str()), ("Content-Type", "application/xml")];
    assert_eq!(client.client.request("PUT", "/Trees?comp=acl", &headers, policy.as_bytes()).status, 204);
    let fields =
        Fields { version: "2019-02-02".into(), table: "Trees".into(), policy: "readers".into(), ..Fields::default() };
    let token = fields.sign(ACCOUNT, &AccountKey::parse(KEY).unwrap()).unwrap();
    assert_eq!(anonymous(&server, &format!("/Trees()?{token}")), 200);
    server.clock().advance(3 * HOUR);
    assert_eq!(anonymous(&server, &format!("/Trees()?{token}")), 403);
}

#[test]
fn a_clock_runs_on_or_stands_still_as_before() {
    let clock = rowhouse_testing::TestClock::new();
    clock.advance(HOUR);
    let first = clock.now();
    assert!(first >= SystemTime::now() + HOUR - Duration::from_mins(1));
    while clock.now() == first {}
    clock.set(july(3));
    clock.advance(HOUR);
    assert_eq!([clock.now(), clock.now()], [july(4); 2]);
    clock.resume();
    while clock.now() == july(4) {}
    clock.pause();
    assert_eq!(clock.now(), clock.now());
    clock.set(DateTime::MIN.to_system_time());
    clock.resume();
    clock.advance(Duration::ZERO);
    assert!(clock.now() >= DateTime::MIN.to_system_time());
}

#[test]
fn a_day_of_timestamps_is_left_at_the_end_of_the_clock() {
    let server = TestServer::start_blocking().unwrap();
    let (mut client, clock) = (DatedClient::new(&server), server.clock());
    client.create_table("Trees");
    let last = DateTime::MAX.to_system_time() - 24 * HOUR;
    let mut timestamp = |row| client.insert("Trees", &tree(row))["Timestamp"].as_str().unwrap().to_owned();
    clock.set(DateTime::MAX.to_system_time());
    assert_eq!(timestamp("1"), "9999-12-30T23:59:59.9999999Z");
    clock.resume();
    clock.advance(Duration::MAX);
    assert_eq!(clock.now(), last, "a running clock stops there, too");
    assert_eq!(timestamp("2"), "9999-12-31T00:00:00Z");
    clock.reset();
    assert_eq!(timestamp("3"), "9999-12-31T00:00:00.0000001Z", "writes still succeed");
}
