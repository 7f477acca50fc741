//! Tests of what all operations have in common.

mod cors;
mod order;
mod secondary_endpoint;
mod shared_access;
mod versions_and_formats;
