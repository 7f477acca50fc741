//! Tests of the metrics tables of the built server. Metrics are written when a server stops, so after a restart the
//! tests need not wait. An hour may end in between, so the tests compare sums over all hours.

use crate::PROGRAM;
use serde_json::Value;
use std::path::Path;
use test_support::cluster::Cluster;
use test_support::{Client, Response, Server};

const HOUR: &str = "$MetricsHourPrimaryTransactionsTable";
const MINUTE: &str = "$MetricsMinutePrimaryTransactionsTable";
const MINUTE_OF_SECONDARY: &str = "$MetricsMinuteSecondaryTransactionsTable";

fn start(data: &Path, args: &[&str]) -> (Server, Client) {
    let server = PROGRAM.start(&[&["--data", data.to_str().unwrap()], args].concat());
    let client = server.client();
    (server, client)
}

fn stop(server: Server) {
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
}

fn insert(client: &mut Client, row: &str) -> Response {
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
    client.request("POST", "/harvest", &[("Prefer", "return-no-content")], body.as_bytes())
}

fn rows(client: &mut Client, table: &str, row_key: &str) -> Vec<Value> {
    let answer = client.request("GET", &format!("/{table}()?$filter=RowKey%20eq%20'{row_key}'"), &[], b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["value"].as_array().unwrap().clone()
}

fn sum(client: &mut Client, table: &str, row_key: &str, column: &str) -> i64 {
    let values = rows(client, table, row_key);
    values.iter().map(|row| row[column].as_str().unwrap_or_else(|| panic!("{row}")).parse::<i64>().unwrap()).sum()
}

fn bytes(body: &[u8]) -> i64 {
    i64::try_from(body.len()).unwrap()
}

#[test]
fn metrics_are_correct_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (server, mut client) = start(folder.path(), &["--analytics"]);
    // There are no metrics yet, but the table exists.
    assert!(rows(&mut client, HOUR, "user;All").is_empty());
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"harvest"}"#).status, 201);
    for row in ["1", "2", "3"] {
        assert_eq!(insert(&mut client, row).status, 204);
    }
    assert_eq!(insert(&mut client, "3").status, 409);
    let entity = "/harvest(PartitionKey='p',RowKey='1')";
    assert_eq!(client.request("PUT", entity, &[], b"{}").status, 204);
    assert_eq!(client.request("MERGE", entity, &[("If-Match", "*")], b"{}").status, 204);
    let read = client.request("GET", entity, &[], b"");
    assert_eq!(read.status, 200);
    let wrong = [("Authorization", "SharedKey devstoreaccount1:AAAA")];
    assert_eq!(client.request("GET", entity, &wrong, b"").status, 403);
    assert_eq!(client.request("OPTIONS", entity, &[], b"").status, 400, "a preflight request without an origin");
    stop(server);

    let (server, mut client) = start(folder.path(), &["--analytics"]);
    let mut of = |row: &str, column: &str| sum(&mut client, HOUR, row, column);
    for (row, column, expected) in [
        ("user;All", "TotalRequests", 11),
        ("user;All", "Success", 8),
        ("user;All", "AnonymousClientOtherError", 1),
        ("user;All", "AuthorizationError", 1),
        ("user;InsertEntity", "TotalRequests", 4),
        ("user;InsertEntity", "Success", 3),
        ("user;InsertEntity", "ClientOtherError", 1),
        ("user;InsertEntity", "TotalIngress", 4 * bytes(br#"{"PartitionKey":"p","RowKey":"1"}"#)),
        ("user;InsertOrReplaceEntity", "Success", 1),
        ("user;QueryEntity", "TotalEgress", bytes(&read.body)),
        ("user;TablePreflightRequest", "AnonymousClientOtherError", 1),
    ] {
        assert_eq!(of(row, column), expected, "{row} {column}");
    }
    let before = 11 + 11;
    for row in rows(&mut client, HOUR, "user;All") {
        let (partition, end_to_end) =
            (row["PartitionKey"].as_str().unwrap(), row["AverageE2ELatency"].as_f64().unwrap());
        assert!(partition.len() == 13 && partition.ends_with("00") && partition.contains('T'), "{partition}");
        assert!(row["AverageServerLatency"].as_f64().unwrap() <= end_to_end, "{row}");
        assert!((0.0..=100.0).contains(&row["PercentSuccess"].as_f64().unwrap()), "{row}");
    }
    assert_eq!(rows(&mut client, HOUR, "system;All").len(), rows(&mut client, HOUR, "user;All").len());
    stop(server);

    // Three more queries preceded the stop. If the hour is the same, its counts continue.
    let (server, mut client) = start(folder.path(), &["--analytics"]);
    assert_eq!(sum(&mut client, HOUR, "user;All", "TotalRequests"), before + 3);
    assert_eq!(sum(&mut client, "$metricstransactionstable", "user;InsertEntity", "TotalRequests"), 4, "the old name");
    // Rows can be cleared.
    let stored = rows(&mut client, HOUR, "user;All");
    let partition = stored[0]["PartitionKey"].as_str().unwrap();
    let row = format!("/%24{}(PartitionKey='{partition}',RowKey='user;All')", &HOUR[1..]);
    let shown = client.request("GET", &row, &[("Accept", "application/json;odata=fullmetadata")], b"").json();
    assert_eq!(shown["TotalRequests@odata.type"], "Edm.Int64");
    assert!(shown["odata.editLink"].as_str().unwrap().starts_with("%24Metrics"), "{shown:?}");
    assert_eq!(client.request("DELETE", &row, &[("If-Match", "*")], b"").status, 204);
    assert_eq!(client.request("GET", &row, &[], b"").status, 404);
    stop(server);
}

#[test]
fn service_properties_decide_which_metrics_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (server, mut client) = start(folder.path(), &["--analytics"]);
    let none = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
    let change = format!(
        "<StorageServiceProperties><HourMetrics><Version>1.0</Version><Enabled>false</Enabled>{none}</HourMetrics>\
         <MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>{none}</MinuteMetrics>\
         </StorageServiceProperties>"
    );
    let changed = client.request("PUT", "/?restype=service&comp=properties", &[], change.as_bytes());
    assert_eq!(changed.status, 202);
    assert_eq!(client.request("GET", "/Tables", &[], b"").status, 200);
    stop(server);
    let (server, mut client) = start(folder.path(), &["--analytics", "--secondary", "off"]);
    // The request that changes the properties already counts under the new settings.
    assert!(rows(&mut client, HOUR, "user;All").is_empty());
    assert_eq!(sum(&mut client, MINUTE, "user;All", "TotalRequests"), 2);
    assert!(rows(&mut client, MINUTE, "user;QueryTables").is_empty(), "metrics per API are off");
    assert_eq!(client.request("GET", "-secondary/Tables", &[], b"").status, 403);
    stop(server);
    // Requests refused by an endpoint that is not served are not counted.
    let (_server, mut client) = start(folder.path(), &["--analytics"]);
    assert_eq!(sum(&mut client, MINUTE_OF_SECONDARY, "user;All", "TotalRequests"), 0);
}

#[test]
fn servers_on_one_database_add_to_the_same_rows() {
    const SERVERS: i64 = 3;
    const REQUESTS: i64 = 5;
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let start = || PROGRAM.start(&["--store", &database, "--analytics"]);
    let servers = (0..SERVERS).map(|_| start()).collect::<Vec<_>>();
    for server in &servers {
        for _ in 0..REQUESTS {
            assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200);
        }
    }
    // All servers write at the same time, when they stop.
    for server in &servers {
        server.signal("TERM");
    }
    for server in servers {
        let (status, log) = server.wait();
        assert!(status.success(), "{log:?}");
        assert!(!log.iter().any(|line| line.contains("written")), "{log:?}");
    }
    let server = start();
    let mut client = server.client();
    assert_eq!(sum(&mut client, HOUR, "user;QueryTables", "Success"), SERVERS * REQUESTS);
    assert!(client.request("GET", "/Tables", &[], b"").json()["value"].as_array().unwrap().is_empty());
}

#[test]
fn metrics_are_part_of_backups_and_not_of_copies() {
    let folder = PROGRAM.folder();
    let path = |name: &str| folder.path(name);
    let (server, mut client) = start(Path::new(&path("data")), &["--analytics"]);
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"harvest"}"#).status, 201);
    stop(server);
    for (subcommand, arguments) in [
        ("check", &["--data", &path("data")][..]),
        ("backup", &["--data", &path("data"), "--to", &path("backups")]),
        ("restore", &["--from", &path("backups"), "--data", &path("restored")]),
        ("copy", &["--from", &path("data"), "--to", &path("copied")]),
    ] {
        let ran = folder.run(subcommand, arguments, &[]);
        assert_eq!(ran.code, Some(0), "{subcommand}: {ran:?}");
    }
    for (name, expected) in [("restored", 1), ("copied", 0)] {
        let (_server, mut client) = start(Path::new(&path(name)), &["--analytics"]);
        assert_eq!(sum(&mut client, HOUR, "user;CreateTable", "Success"), expected, "{name}");
        let listed = client.request("GET", "/Tables", &[], b"").json();
        assert_eq!(listed["value"].as_array().unwrap().len(), 1, "{name}: {listed}");
    }
}
