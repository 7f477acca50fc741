//! Tests of what all operations have in common.

mod anonymous;
mod bad_input;
pub(crate) mod bearer;
mod cors;
mod delegation;
mod dialects;
mod key_ranges;
mod long_responses;
mod metrics_tables;
mod order;
mod proxies;
mod query_cost;
mod quotas;
mod reasons;
mod refused_heads;
mod rehearsal;
mod response_heads;
mod secondary_endpoint;
mod shared_access;
mod signatures;
mod throttling;
mod versions_and_formats;
mod web_pages;
mod wide_entities;
