//! Tests of what all operations have in common.

mod bad_input;
pub(crate) mod bearer;
mod cors;
mod delegation;
mod order;
mod secondary_endpoint;
mod shared_access;
mod signatures;
mod versions_and_formats;
mod web_pages;
