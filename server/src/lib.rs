//! The server of Rowhouse: the path of a request from the socket to the response, with its limits, authorization, and
//! everything that operators can observe.
//!
//! [`Server::start`] assembles a server from [`Settings`] and an engine, and [`Server::run`] serves connections.
//! `service.rs` contains the flow of a request. Each folder has one job, which its `mod.rs` states.
//! `xtask/tests/repository/structure.rs` fails if folders depend on each other in a cycle.
//!
//! This crate must not depend on how an engine stores data, on the command line, or on where settings come from.
//!
//! A program that embeds the server, such as a test, can leave out what only a deployed server needs: the features
//! `admin`, `explorer` and `outgoing`.

#![cfg_attr(not(feature = "admin"), allow(dead_code, reason = "without the admin listener, nothing reads its values"))]

mod accounts;
#[cfg(feature = "admin")]
mod admin;
mod authorization;
mod changes;
mod clock;
mod connection;
mod explorer;
mod failure;
mod limits;
mod operations;
mod outgoing;
mod rehearsal;
mod rehearsed_service;
mod reload;
mod replication;
mod request;
mod response;
mod server;
mod service;
mod settings;
mod tables;
mod telemetry;
mod test_controls;
mod toml_file;

pub use accounts::edit as account_file;
pub use accounts::{Accounts, Quota, QuotaSection, connection_string, random_key};
#[cfg(feature = "admin")]
pub use admin::log_control::LogControl;
pub use authorization::bearer::BearerTokens;
pub use authorization::oauth::{OAuthConfig, OAuthSection};
pub use connection::tls::server_config;
pub use limits::memory::MEMORY_BYTES_MIN;
pub use limits::throttle::Targets;
pub use rehearsal::{RehearsalError, RehearsalSettings};
pub use reload::Files;
pub use replication::{REPLICATION_PATH, Replicated, StandbyState};
pub use request::{FaultScript, RequestFaults, ScriptedRefusal, TrustedProxies};
pub use server::{Observers, Server};
pub use settings::{Access, AccountCheck, ReasonAudience, ReasonSettings, Secondary, Settings, TestHooks};
#[cfg(feature = "admin")]
pub use telemetry::metrics::begin_process;
pub use telemetry::metrics::{Metrics, RequestTotals};
pub use test_controls::{TestClock, TestControlSettings, TestData};
pub use toml_file::parse_toml;
