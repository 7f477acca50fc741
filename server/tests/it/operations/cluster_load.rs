//! Get Cluster Load, an extension (`docs/extensions.md`).

use crate::Layer::{FrontEnd, Query};
use crate::{Case, Server, check, get, signature};
use engine::load::{Action, LoadRates, NodeReport, PartitionReport, ShardReport, Step, StepReport};
use engine::{LoadMonitor, LoadReport};
use serde_json::Value;

const LOAD: &str = "/?restype=service&comp=balance";
/// The response, which the tests of the explorer use, too.
const RESPONSE: &str = include_str!("../../../../explorer/tests/support/load.json");

fn rates([load, reads_per_second, writes_per_second, rows_per_second, waiting]: [f64; 5]) -> LoadRates {
    LoadRates { load, reads_per_second, writes_per_second, rows_per_second, waiting }
}

fn node(id: i32, host: &str, shards: usize, load: [f64; 5]) -> NodeReport {
    NodeReport { id, name: format!("{host}.example:5432"), may_have_shards: id > 1, shards, load: rates(load) }
}

fn shard(id: i64, (first, last): (i32, i32), node: i32, load: [f64; 5]) -> ShardReport {
    ShardReport { id, first, last, node: Some(node), load: rates(load) }
}

fn partition(account: &str, partition: &str, load: f64) -> PartitionReport {
    PartitionReport { account: account.to_owned(), table: "orders".to_owned(), partition: partition.to_owned(), load }
}

fn step(began: u64, step: &Step, ended: Option<u64>, error: Option<&str>) -> StepReport {
    StepReport { began, step: step.to_string(), ended, error: error.map(str::to_owned) }
}

fn report() -> LoadReport {
    let moved = |shard| Step::Move { shard, from: 2, to: 3 };
    let second = [0.5, 4000.0, 250.0, 5000.0, 0.5];
    LoadReport {
        servers: 2,
        nodes: vec![
            node(1, "coordinator", 0, [0.0; 5]),
            node(2, "worker1", 2, [1.5, 8000.0, 1500.0, 70_000.0, 3.25]),
            node(3, "worker2", 1, second),
        ],
        shards: vec![
            shard(102_008, (i32::MIN, -1), 2, [1.125, 6000.0, 1200.0, 42_000.0, 2.5]),
            shard(102_009, (0, 1_073_741_823), 2, [0.375, 2000.0, 300.0, 28_000.0, 0.75]),
            shard(102_010, (1_073_741_824, i32::MAX), 3, second),
        ],
        partitions: vec![
            partition("vineyard", "secret", 0.8),
            partition("devstoreaccount1", "<b>2026\n11", 0.75),
            partition("devstoreaccount", "secret", 0.1),
        ],
        steps: vec![
            step(1_795_849_200, &moved(102_010), Some(1_795_849_245), None),
            step(1_795_852_800, &moved(102_009), Some(1_795_852_801), Some("the <i>disk</i> is full")),
            step(1_795_856_400, &moved(102_009), None, None),
        ],
        action: Action::Move,
        advice:
            "move shard 102009 from node 2 to node 3: the hottest node now has 1.50 times the average load, and then \
                 1.12 times"
                .to_owned(),
        step: Some(moved(102_009)),
    }
}

/// Returns a server with extensions, and the monitor of its cluster.
fn server() -> (Server, LoadMonitor) {
    let monitor = LoadMonitor::default();
    let load = Some(monitor.clone());
    (Server::with(|settings| (settings.extensions, settings.load) = (true, load)), monitor)
}

#[test]
fn the_load_with_the_partitions_of_the_account() {
    let (server, monitor) = server();
    monitor.publish(report());
    let mut client = server.client();
    for case in [get(LOAD), get(LOAD).atom(), get(LOAD).without("Accept"), get(&format!("-secondary{LOAD}"))] {
        let response = case.send(&mut client);
        assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
        assert_eq!(response.json(), serde_json::from_str::<Value>(RESPONSE).unwrap());
    }
}

#[test]
fn the_load_is_unknown_while_the_database_does_not_respond() {
    let (server, _monitor) = server();
    check(&server, [get(LOAD).answers(503, "ServerBusy").header("retry-after", "1")]);
}

#[test]
fn the_load_needs_the_account_key() {
    let (server, monitor) = server();
    monitor.publish(report());
    let of_account = signature("rwdlacu", |fields| {
        (fields.table, fields.services, fields.resources) = ("".into(), "t".into(), "sco".into());
    });
    let of_table = signature("raud", |_| {});
    check(
        &server,
        [
            get(LOAD).signed(&of_table).answers(403, "AuthorizationFailure"),
            get(LOAD).signed(&of_account).answers(403, "AuthorizationFailure"),
            Case::new("PUT", LOAD, "").fails(405, "MethodNotAllowed", FrontEnd),
        ],
    );
}

#[test]
fn other_servers_refuse_it_as_the_service_does() {
    let unknown = || get(LOAD).fails(400, "InvalidQueryParameterValue", Query);
    let monitor = LoadMonitor::default();
    monitor.publish(report());
    check(&Server::with(|settings| settings.extensions = true), [unknown().layer(FrontEnd)]);
    check(&Server::with(|settings| settings.load = Some(monitor)), [unknown().layer(FrontEnd)]);
    check(&Server::start(), [unknown().layer(FrontEnd)]);
}
