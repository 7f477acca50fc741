//! Tests of the operations, one file for each.

mod batch;
mod count_entities;
mod create_table;
mod delete_entities;
mod delete_entity;
mod delete_table;
mod get_cluster_load;
mod get_entity;
mod get_service_properties;
mod get_service_stats;
mod get_table;
mod get_table_acl;
mod get_table_indexes;
mod get_table_retention;
pub(crate) mod get_user_delegation_key;
mod insert_entity;
mod insert_or_merge_entity;
mod insert_or_replace_entity;
mod merge_entity;
mod ordered_views;
mod query_changes;
mod query_entities;
mod query_tables;
mod set_service_properties;
mod set_table_acl;
mod set_table_indexes;
mod set_table_retention;
mod stream_changes;
mod update_entity;

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
