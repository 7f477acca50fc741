//! The load of a cluster in the metrics of a server, and in its response to a request.

use super::cluster;
use crate::PROGRAM;
use crate::admin::page::{Page, get, text};
use serde_json::Value;
use std::time::Instant;
use test_support::{Server, TIMEOUT, eventually};

const LOAD: &str = "/?restype=service&comp=balance";

pub(super) fn metrics(server: &Server) -> Page {
    let page = get(server, "/metrics");
    assert_eq!(page.status, 200);
    Page::read(text(&page))
}

/// Returns the sum of all samples whose names begin like this.
fn sum(page: &Page, start: &str) -> f64 {
    page.0.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, value)| value).sum()
}

#[test]
fn a_server_shows_the_load_of_another_one() {
    let Some((cluster, _, store)) = cluster() else { return };
    let start = |options: &[&str]| {
        PROGRAM.start(&[&["--store", &store, "--distribute", "--store-connections", "8"], options].concat())
    };
    let (busy, idle) = (start(&[]), start(&["--extensions", "--admin", "127.0.0.1:0"]));
    let mut client = busy.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"Hot"}"#).status, 201);
    eventually("the measurements of both servers", || {
        metrics(&idle).0.get("rowhouse_cluster_servers").filter(|servers| **servers > 1.9).map(drop)
    });
    let page = eventually("the load of a partition", || {
        for row in 0..100 {
            let entity = format!("/hot(PartitionKey='hottest',RowKey='{row}')");
            assert_eq!(client.request("PUT", &entity, &[], b"{}").status, 204);
        }
        let page = metrics(&idle);
        (page.0.get("rowhouse_cluster_partition_share{rank=\"1\"}")? > &0.5).then_some(page)
    });
    assert!(sum(&page, "rowhouse_cluster_node_load{") > 0.0, "{page:?}");
    assert!(sum(&page, "rowhouse_cluster_node_waiting{") > 0.0, "{page:?}");
    assert!((sum(&page, "rowhouse_cluster_node_shards{") - 32.0).abs() < 0.1, "{page:?}");
    assert!((sum(&page, "rowhouse_balance_advice{") - 1.0).abs() < 0.1, "{page:?}");
    assert!((1.9..2.1).contains(&page.0["rowhouse_cluster_imbalance_ratio"]), "{page:?}");

    let response = idle.client().request("GET", LOAD, &[], b"");
    assert_eq!(response.status, 200, "{response:?}");
    let load: Value = response.json();
    assert_eq!(load["servers"], 2, "{load}");
    let (nodes, shards) = (load["nodes"].as_array().unwrap(), load["shards"].as_array().unwrap());
    assert_eq!(shards.len(), 32, "{load}");
    for node in nodes {
        let name = format!("rowhouse_cluster_node_shards{{node={}}}", node["name"]);
        assert!((page.0[&name] - node["shards"].as_f64().unwrap()).abs() < 0.1, "{name} {load}");
    }
    let hottest = &load["partitions"][0];
    assert_eq!((&hottest["table"], &hottest["partition"]), (&Value::from("Hot"), &Value::from("hottest")), "{load}");
    assert_eq!(load["steps"], Value::Array(Vec::new()));
    let refused = busy.client().request("GET", LOAD, &[], b"");
    assert_eq!(refused.status, 400, "a server without extensions is like the service: {refused:?}");

    (0..=2).for_each(|node| cluster.kill(node));
    let began = Instant::now();
    assert!(!metrics(&idle).0.is_empty());
    assert!(began.elapsed() < TIMEOUT, "the page must not wait for the database");
    eventually("the end of an old load", || (!metrics(&idle).0.contains_key("rowhouse_cluster_servers")).then_some(()));
    assert_eq!(idle.client().request("GET", LOAD, &[], b"").status, 503);
}
