//! The program `rowhouse`: its command line, its configuration, and the lifetime of its process.
//!
//! The commands themselves are in the crates `server` and `tools`. This is a library so that tests can compare
//! documents and manifests with the options. It must not know how a request is served.

mod accounts;
mod azurite;
mod certificate;
pub mod cli;
pub mod config;
mod file;
mod health;
pub mod log;
mod process;
mod promote;
pub mod run;
mod self_signed;
mod serve;
