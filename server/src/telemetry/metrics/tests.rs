//! Tests of the counters and of the metrics page.

use super::*;
use crate::limits::LimitFigures;
use crate::limits::streams::StreamFigures;
use crate::request::EntityCounts;
use engine::figures::{
    ChangeLogFigures, CommitterFigures, DatabaseFigures, DiskFigures, Distribution, NodeFigures, ReadFigures,
    ReplicationFigures, TreeFigures, TreeMemory,
};
use engine::load::{Action, LoadRates, NodeReport, PartitionReport, StepReport};
use engine::{Figures, LoadReport};
use model::{AccountName, DateTime};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

fn completed<'a>(
    account: &'a AccountName,
    table: &'a str,
    operation: OperationKind,
    outcome: Outcome,
) -> RequestSummary<'a> {
    RequestSummary {
        began_at: SystemTime::now(),
        duration: Duration::from_micros(300),
        body_wait: Duration::ZERO,
        operation,
        account: Some(account),
        is_secondary: false,
        table: Some(table),
        credential: CredentialKind::SharedKey,
        is_authenticated: true,
        has_own_timeout: false,
        outcome,
        request_bytes: 7,
        response_bytes: 11,
        entities: EntityCounts { examined: 5, returned: 3, written: 2 },
        method: "GET",
        path: "/",
        request_id: "",
        client_request_id: None,
        user_agent: None,
        peer: (Ipv4Addr::LOCALHOST, 1).into(),
        client: Ipv4Addr::LOCALHOST.into(),
        is_tls: false,
    }
}

const DONE: Outcome = Outcome::Responded { status: 204, code: None };

fn failed(code: ErrorCode) -> Outcome {
    Outcome::Responded { status: code.status(), code: Some(code) }
}

fn account(name: &str) -> AccountName {
    AccountName::new(name).unwrap()
}

/// A coordinator without shards, and two workers with different loads.
fn load() -> LoadReport {
    let node = |id: i32, may_have_shards, shards, load| NodeReport {
        id,
        name: format!("worker{id}.example:5432"),
        may_have_shards,
        shards,
        load: LoadRates { load, waiting: load * 2.0, ..LoadRates::default() },
    };
    let partition = |number: u32| PartitionReport {
        account: "orchard".to_owned(),
        table: "trees".to_owned(),
        partition: format!("secret{number}"),
        load: 1.0 / f64::from(1 << number),
    };
    let step = |began, ended, error: Option<&str>| StepReport {
        began,
        step: "move shard 1 from node 2 to node 3".to_owned(),
        ended,
        error: error.map(str::to_owned),
    };
    LoadReport {
        servers: 3,
        nodes: vec![node(1, false, 0, 0.0), node(2, true, 20, 1.5), node(3, true, 12, 0.5)],
        shards: Vec::new(),
        partitions: (0..9).map(partition).collect(),
        steps: vec![step(100, Some(160), None), step(200, Some(201), Some("failed")), step(300, None, None)],
        action: Action::Move,
        advice: String::new(),
        step: None,
    }
}

/// The snapshot has more statistics than any single engine reports.
fn snapshot(metrics: Metrics) -> MetricsSnapshot {
    let spread = || Distribution::new(REQUEST_TIME_BOUNDS).read();
    let committer = CommitterFigures {
        queue: 0,
        queue_bytes: 0,
        group_transactions: spread(),
        group_entities: spread(),
        write_nanoseconds: spread(),
        busy_nanoseconds: [("room", 0), ("apply", 0), ("write", 0), ("answer", 0)],
        transactions: 0,
        stored_bytes: 0,
        outages: 0,
    };
    let tree = TreeFigures {
        disk_bytes: 0,
        log_bytes: 0,
        log_segments: 0,
        sorted_files: 0,
        memtable_bytes: 0,
        flushes_waiting: 0,
        cache_bytes: 0,
        cache_capacity_bytes: 0,
        cache_hits: 0,
        cache_misses: 0,
        memory: TreeMemory::default(),
        reads: ReadFigures::default(),
        compactions_running: 0,
        compactions: 0,
        compaction_seconds: 0.0,
        scans_running: 0,
        scans_waiting: 0,
    };
    let database = DatabaseFigures {
        connections_max: 0,
        nodes: vec![NodeFigures {
            node: "db.example:5432".to_owned(),
            is_up: true,
            connections: 0,
            connections_idle: 0,
            waiting: 0,
            wait_nanoseconds: spread(),
            step_nanoseconds: spread(),
        }],
        retries: [("conflict", 0), ("timeout", 0), ("connection", 0)],
        load: Some(Arc::new(load())),
    };
    let figures = Figures {
        tables: Some(0),
        purge_backlog: Some(0),
        refusal: None,
        disk: Some(DiskFigures { free_bytes: 0, reserve_bytes: 0 }),
        committer: Some(committer),
        tree: Some(tree),
        database: Some(database),
        replication: Some(ReplicationFigures {
            epoch: 1,
            standbys: Some(1),
            lag_transactions: Some(0),
            lag_milliseconds: Some(0),
            is_awaited: true,
            is_cut_off: false,
        }),
        change_log: Some(ChangeLogFigures {
            bytes: 0,
            first: 1,
            next: 1,
            oldest: Some(DateTime::MIN),
            undecoded_bytes: Some(0),
        }),
    };
    let streams = StreamFigures { positions: vec![(0, 7)], streams_max: 64, refused: 0 };
    MetricsSnapshot {
        now: Some(SystemTime::now()),
        metrics: Arc::new(metrics),
        connections: Arc::default(),
        service: Some((figures, LimitFigures { streams: Some((streams, 8)), ..LimitFigures::default() })),
        stage: "serving",
        is_ready: true,
        spans: Some((0, 0)),
    }
}

#[test]
fn the_load_of_a_cluster() {
    let page = write(&snapshot(Metrics::new(true))).unwrap();
    for line in [
        "rowhouse_cluster_servers 3",
        "rowhouse_cluster_node_load{node=\"worker2.example:5432\"} 1.5",
        "rowhouse_cluster_node_load{node=\"worker1.example:5432\"} 0.0",
        "rowhouse_cluster_node_waiting{node=\"worker3.example:5432\"} 1.0",
        "rowhouse_cluster_node_shards{node=\"worker2.example:5432\"} 20",
        "rowhouse_cluster_imbalance_ratio 1.5",
        "rowhouse_cluster_partition_share{rank=\"1\"} 0.5",
        "rowhouse_cluster_partition_share{rank=\"5\"} 0.03125",
        "rowhouse_balance_advice{advice=\"move\"} 1",
        "rowhouse_balance_advice{advice=\"even\"} 0",
        "rowhouse_balance_steps{result=\"completed\"} 1",
        "rowhouse_balance_steps{result=\"failed\"} 1",
        "rowhouse_balance_steps{result=\"unfinished\"} 1",
        "rowhouse_balance_last_step_timestamp_seconds 300",
    ] {
        assert!(page.lines().any(|of_page| of_page == line), "{line} is missing in {page}");
    }
    assert!(!page.contains("rank=\"6\"") && !page.contains("secret"), "{page}");
    let mut without = snapshot(Metrics::new(true));
    if let Some((Figures { database: Some(database), .. }, _)) = &mut without.service {
        database.load = None;
    }
    let page = write(&without).unwrap();
    assert!(page.contains("rowhouse_store_node_up") && !page.contains("_cluster_") && !page.contains("_balance_"));
}

type Families = BTreeMap<String, (String, BTreeSet<String>)>;

/// Returns the families of a page. The labels of histograms do not include the bucket label.
fn families(page: &str) -> Families {
    let mut families = Families::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let end = if kind == "counter" { "_total" } else { "" };
        families.insert(format!("{name}{end}"), (kind.to_owned(), BTreeSet::new()));
    }
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, labels)) = line.split_once('{') else { continue };
        let bare = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let labels = labels.split_once("} ").unwrap().0;
        let names = labels.split("\",").map(|label| label.split_once('=').unwrap().0.to_owned());
        families.get_mut(bare).unwrap().1.extend(names.filter(|name| name != "le"));
    }
    families
}

fn documented() -> Families {
    let page = include_str!("../../../../docs/observability.md");
    // The page also lists metrics that other programs export.
    let (servers, _) = page.split_once("### Exporters").unwrap();
    let rows = servers.lines().filter(|line| line.starts_with("| `rowhouse_") || line.starts_with("| `process_"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, kind, labels, meaning, _] = cells[..] else { panic!("five columns are expected: {row}") };
        assert!(!meaning.is_empty(), "{row}");
        let labels = labels.split(',').map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()).collect();
        (name.trim_matches('`').to_owned(), (kind.to_owned(), labels))
    })
    .collect()
}

#[test]
fn the_documentation_lists_what_is_exported_with_kinds_and_labels() {
    let metrics = Metrics::new(true).with_revision(Some("c0ffee"));
    metrics.begin().complete(&completed(&account("orchard"), "Trees", OperationKind::InsertEntity, DONE));
    let page = write(&snapshot(metrics)).unwrap();
    assert!(page.ends_with("# EOF\n"));
    let exported = families(&page);
    let documented = documented();
    for (name, of_page) in &exported {
        assert_eq!(documented.get(name), Some(of_page), "{name}");
    }
    for name in documented.keys() {
        assert!(exported.contains_key(name), "{name} is documented but not exported");
    }
}

#[test]
fn every_end_of_a_request_has_a_place_of_its_own() {
    let mut expected: BTreeMap<usize, (u16, &str)> = BTreeMap::new();
    let mut place = |outcome: Outcome, labels| {
        let place = outcome_index(outcome);
        assert!(expected.insert(place, labels).is_none(), "{outcome:?}");
        assert_eq!(outcome_labels().nth(place), Some(labels), "{outcome:?}");
    };
    for code in ErrorCode::ALL {
        place(failed(*code), (code.status(), code.as_str()));
        place(Outcome::Responded { status: 202, code: Some(*code) }, (202, code.as_str()));
    }
    for status in [200, 201, 202, 204, 304, 308, 404, 405] {
        place(Outcome::Responded { status, code: None }, (status, ""));
    }
    place(Outcome::Responded { status: 299, code: None }, (0, ""));
    place(Outcome::Aborted, (0, "aborted"));
    assert_eq!(expected.len(), OUTCOME_COUNT);
    assert_eq!(outcome_labels().count(), OUTCOME_COUNT);
}

#[test]
fn a_request_is_in_flight_until_its_end_or_until_its_task_is_gone() {
    let (metrics, orchard) = (Metrics::new(true), account("orchard"));
    let (first, second) = (metrics.begin(), metrics.begin());
    assert_eq!(metrics.in_flight.load(Ordering::Relaxed), 2);
    first.complete(&completed(&orchard, "trees", OperationKind::QueryEntity, DONE));
    drop(second);
    assert_eq!((metrics.in_flight.load(Ordering::Relaxed), metrics.abandoned.load(Ordering::Relaxed)), (0, 1));
}

fn lines(metrics: &Metrics, start: &str) -> Vec<String> {
    let sum = |counters: &by_table::RequestCounters| {
        counters.outcomes.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>()
    };
    let tables = metrics.by_table.tables();
    let tables = tables.iter().map(|entry| format!("{}/{} {}", entry.account, entry.table, sum(&entry.counters)));
    let accounts = metrics.by_table.accounts();
    let accounts = accounts.iter().map(|(account, counters)| format!("{account} {}", sum(counters)));
    tables.chain(accounts).filter(|line| line.starts_with(start)).collect()
}

#[test]
fn tables_come_with_a_success_and_go_with_their_deletion_or_with_age() {
    let (metrics, orchard) = (Metrics::new(true), account("orchard"));
    let count = |table, operation, outcome| metrics.count(&completed(&orchard, table, operation, outcome));
    count("ghost", OperationKind::QueryEntity, failed(ErrorCode::TableNotFound));
    count("trees", OperationKind::QueryEntity, failed(ErrorCode::ResourceNotFound));
    assert_eq!(lines(&metrics, "orchard"), ["orchard 2"], "nothing is known to exist");
    count("Trees", OperationKind::InsertEntity, DONE);
    count("tREES", OperationKind::QueryEntity, failed(ErrorCode::ResourceNotFound));
    assert_eq!(lines(&metrics, "orchard"), ["orchard/trees 2", "orchard 4"], "whatever the case");
    count("trees", OperationKind::DeleteTable, DONE);
    assert_eq!(lines(&metrics, "orchard"), ["orchard 5"]);
    count("trees", OperationKind::InsertEntity, DONE);
    assert_eq!(lines(&metrics, "orchard"), ["orchard/trees 1", "orchard 6"], "another table of the same name");
    count("trees", OperationKind::QueryEntity, failed(ErrorCode::TableNotFound));
    assert_eq!(lines(&metrics, "orchard"), ["orchard 7"], "deleted by another server");
    count("trees", OperationKind::InsertEntity, DONE);
    metrics.by_table.evict_idle(SystemTime::now() + Duration::from_hours(23));
    assert_eq!(lines(&metrics, "orchard/"), ["orchard/trees 1"]);
    metrics.by_table.evict_idle(SystemTime::now() + Duration::from_hours(25));
    assert_eq!(lines(&metrics, "orchard"), ["orchard 8"]);
}

#[test]
fn accounts_and_tables_beyond_the_bounds_count_together() {
    use model::limits::{METRICS_ACCOUNTS_MAX, METRICS_TABLES_MAX};
    let (metrics, orchard) = (Metrics::new(true), account("orchard"));
    for number in 0..METRICS_TABLES_MAX + 5 {
        let table = format!("t{number}");
        for _ in 0..2 {
            metrics.count(&completed(&orchard, &table, OperationKind::InsertEntity, DONE));
        }
    }
    assert_eq!(lines(&metrics, "orchard/").len(), METRICS_TABLES_MAX);
    let other = metrics.by_table.other_tables().unwrap().outcomes[0].load(Ordering::Relaxed);
    assert_eq!(other, 10);
    assert_eq!(lines(&metrics, "orchard "), [format!("orchard {}", 2 * (METRICS_TABLES_MAX + 5))]);
    for number in 0..METRICS_ACCOUNTS_MAX {
        metrics.count(&completed(&account(&format!("a{number:03}")), "", OperationKind::QueryTables, DONE));
    }
    assert_eq!(lines(&metrics, "(other)"), ["(other) 1"]);
}

#[test]
fn without_tables_only_accounts_have_counters() {
    let metrics = Metrics::new(false);
    metrics.count(&completed(&account("orchard"), "trees", OperationKind::InsertEntity, DONE));
    assert_eq!(lines(&metrics, ""), ["orchard 1"]);
}
