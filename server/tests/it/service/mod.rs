//! Tests of what all operations have in common.

pub(crate) mod bearer;
mod cors;
mod delegation;
mod order;
mod secondary_endpoint;
mod shared_access;
mod versions_and_formats;
