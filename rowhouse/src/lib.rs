//! The program `rowhouse`: its command line, its configuration, and the life of its process.
//!
//! The commands themselves are in the crates `server` and `tools`. This library is there for the program and for its tests,
//! which compare documents and manifests with the options.

pub mod cli;
pub mod config;
mod health;
mod process;
pub mod run;
mod serve;
