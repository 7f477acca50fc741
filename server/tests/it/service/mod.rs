//! Tests of what all operations have in common.

mod order;
