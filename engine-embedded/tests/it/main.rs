//! Tests of the engine through its public interface, in one binary.
//!
//! The tests share a process. A test that changes the process itself runs in a child process, which executes this
//! binary with only the name of that test. An example is the model test, which limits the size of files.
//! Limits exist only on Unix.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failure is a failed test")]
#![allow(clippy::print_stdout, reason = "a seed that is not printed cannot be repeated")]

mod check;
mod contract;
mod data_folder;
mod log_file;
