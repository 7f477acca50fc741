//! Tests of the operations, one file for each.

mod batch;
mod create_table;
mod delete_entity;
mod delete_table;
mod get_entity;
mod get_service_properties;
mod get_service_stats;
mod get_table;
mod get_table_acl;
mod insert_entity;
mod insert_or_merge_entity;
mod insert_or_replace_entity;
mod merge_entity;
mod query_entities;
mod query_tables;
mod set_service_properties;
mod set_table_acl;
mod update_entity;

use std::ops::Range;

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
