//! The databases of releases, which this release must open with everything as they were.

use super::{releases, write_to_known_entity};
use crate::PROGRAM;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use test_support::cluster::Cluster;
use test_support::content::{create_table, exact_snapshot};

pub(crate) const DATABASE: &str = "database.sql";
pub(crate) const CONTENT: &str = "database.json";

/// Opens a database that a release left, and compares its contents.
pub(crate) fn open_and_compare(cluster: &Cluster, release: &Path) {
    let name = release.display();
    let url = cluster.database();
    cluster.load(&url, &release.join(DATABASE));
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
        open_and_compare(cluster, &release);
    }
}
