//! Databases of earlier releases, whose schema this one makes its own.

use super::{releases, write_to_known_entity};
use crate::PROGRAM;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use test_support::cluster::{CitusCluster, Cluster};
use test_support::content::{create_table, exact_snapshot};

pub(crate) const DATABASE: &str = "database.sql";
pub(crate) const CONTENT: &str = "database.json";

/// What made the second version of the schema of the first, taken back.
const TO_THE_FIRST_SCHEMA: &str = "DROP TABLE rowhouse_floors; \
    ALTER TABLE rowhouse_tables DROP COLUMN stamp_floor, DROP COLUMN stamp_ceiling; \
    UPDATE rowhouse_meta SET value = 1 WHERE name = 'schema-version'";

/// Opens a database that holds what a release left, changed by some statements, and compares.
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
    assert_eq!(answer.json()["value"], json!([]), "{name}: the table of a purge is not the new one of its name");
    drop(server.stop());
}

#[test]
fn databases_of_all_releases_are_opened_with_everything_as_it_was() {
    let Some(cluster) = Cluster::shared() else { return };
    for release in releases() {
        open_and_compare(cluster, &release, "SELECT");
    }
}

/// What made a database of the second schema one that is distributed over the workers of Citus.
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
    // The coordinator is where the older version was; the workers take the requests from then on, and need no option for it.
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
    // It was never part of a release, but of programs that people ran.
    open_and_compare(cluster, &super::fixtures().join("0.1.0"), TO_THE_FIRST_SCHEMA);
}
