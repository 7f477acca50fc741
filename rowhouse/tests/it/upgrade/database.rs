//! Tests of databases of earlier releases, whose schema this release upgrades.

use super::{releases, write_to_known_entity};
use crate::PROGRAM;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use test_support::cluster::{CitusCluster, Cluster};
use test_support::content::{create_table, exact_snapshot};

pub(crate) const DATABASE: &str = "database.sql";
pub(crate) const CONTENT: &str = "database.json";

/// Reverts the second version of the schema to the first.
const TO_THE_FIRST_SCHEMA: &str = "DROP TABLE rowhouse_floors; \
    ALTER TABLE rowhouse_tables DROP COLUMN stamp_floor, DROP COLUMN stamp_ceiling; \
    UPDATE rowhouse_meta SET value = 1 WHERE name = 'schema-version'";

/// Opens a database that a release left and that `change` modifies, and compares its contents.
pub(crate) fn open_and_compare(cluster: &Cluster, release: &Path, change: &str) {
    let name = release.display();
    let url = cluster.database();
    cluster.load(&url, &release.join(DATABASE));
    cluster.sql(&url, change);
    let expected: Value = serde_json::from_slice(&fs::read(release.join(CONTENT)).unwrap()).unwrap();
    let server = PROGRAM.start(&["--store", &url]);
    assert_eq!(exact_snapshot(&server).to_json(), expected, "{name}");
    write_to_known_entity(&server, &name.to_string());
    create_table(&mut server.client(), "Gone");
    let answer = server.client().request("GET", "/Gone()", &[], b"");
    assert_eq!(
        answer.json()["value"],
        json!([]),
        "{name}: a purged table must not appear in a new table with the same name"
    );
    drop(server.stop());
}

#[test]
fn databases_of_all_releases_are_opened_with_everything_as_it_was() {
    let Some(cluster) = Cluster::shared() else { return };
    for release in releases() {
        open_and_compare(cluster, &release, "SELECT");
    }
}

/// Distributes a database with the second schema over the Citus workers.
const DISTRIBUTE_THE_SECOND_SCHEMA: &str = "SELECT create_distributed_table('rowhouse_entities', 'partition'); \
    SELECT create_distributed_table('rowhouse_graves', 'partition', colocate_with => 'rowhouse_entities')";

#[test]
fn a_distributed_database_is_upgraded_with_everything_as_it_was() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let release = super::fixtures().join("0.1.0");
    let database = cluster.database();
    cluster.load(&database, &release.join(DATABASE));
    cluster.sql(0, &database, DISTRIBUTE_THE_SECOND_SCHEMA);
    let expected: Value = serde_json::from_slice(&fs::read(release.join(CONTENT)).unwrap()).unwrap();
    // The older version used the coordinator; now the workers serve the requests, without any option.
    for url in [cluster.coordinator(&database), cluster.workers(&database)] {
        let server = PROGRAM.start(&["--store", &url]);
        assert_eq!(exact_snapshot(&server).to_json(), expected, "{url}");
        drop(server.stop());
    }
    let server = PROGRAM.start(&["--store", &cluster.workers(&database)]);
    write_to_known_entity(&server, "0.1.0 on Citus");
}

#[test]
fn the_first_schema_is_upgraded_with_everything_as_it_was() {
    let Some(cluster) = Cluster::shared() else { return };
    // The first schema was never part of a release, but some users ran builds with it.
    open_and_compare(cluster, &super::fixtures().join("0.1.0"), TO_THE_FIRST_SCHEMA);
}
