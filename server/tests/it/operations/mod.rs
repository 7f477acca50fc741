//! Tests of the operations.

mod batch;
mod cluster_load;
mod count_entities;
mod delete_entities;
mod get_entity;
mod insert_entity;
mod ordered_views;
mod query_changes;
mod query_entities;
mod service;
mod stream_changes;
mod table_list;
mod table_settings;
mod update_entity;
mod written_entity;

use std::fs;
use std::ops::Range;
use std::path::Path;

/// The URL path of the entity that most tests use.
const ENTITY: &str = "/cars(PartitionKey='p',RowKey='r')";

/// Returns the body of an insert into the partition `p`, with more members.
fn entity(row: &str, more: &str) -> String {
    format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"{more}}}")
}

/// Returns integer properties with distinct names, separated by commas.
fn properties(numbers: Range<usize>) -> String {
    numbers.map(|number| format!("\"P{number}\":1")).collect::<Vec<_>>().join(",")
}

#[test]
fn every_operation_has_a_file_of_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in fs::read_dir(root.join("src/operations")).unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        let tests = root.join("tests/it/operations").join(format!("{name}.rs"));
        assert!(tests.exists(), "add {}", tests.display());
    }
}
