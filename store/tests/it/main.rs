//! The tests of the engines through their public interface, as one binary.
//!
//! They share its process. What changes the process itself (the model test limits the size of files) runs in a child
//! process: this binary again, with the name of the one test.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failure is a failed test")]
#![allow(clippy::print_stdout, reason = "a seed that is not printed cannot be repeated")]

mod check;
mod citus_pages;
mod connection_loss;
mod contract;
mod data_folder;
mod flipped_bits;
mod model_test;
mod restart;
mod servers;
mod snapshot;
mod support;
