//! The settings of a server: checked values, independent of their source.

use crate::accounts::{Accounts, Quota};
use crate::authorization::oauth::OAuthConfig;
use crate::limits::throttle::Targets;
use crate::rehearsal::RehearsalSettings;
use crate::reload::Files;
use crate::request::FaultScript;
use crate::test_controls::{TestClock, TestControlSettings};
use model::Clock;
use rustls::ServerConfig;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What the secondary endpoint serves. There is no second copy of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secondary {
    /// The data of the primary endpoint, for reading.
    Mirror,
    /// Nothing.
    Off,
}

/// Rejects accounts that the server must not have, such as those with a well-known key on a public address.
pub type AccountCheck = Box<dyn Fn(&Accounts) -> anyhow::Result<()> + Send + Sync>;

/// The settings of a server.
pub struct Settings {
    /// The time of day. The engine has its own clock, which should be the same one.
    pub clock: Arc<dyn Clock>,
    /// The same clock, if a test may move it without its clients' knowledge. In that case, requests may also be dated
    /// by the real time.
    pub test_clock: Option<TestClock>,
    /// The accounts at startup.
    pub accounts: Accounts,
    /// The file from which the accounts were read, and from which they are reloaded when it changes; `None` if there is
    /// no file.
    pub account_file: Option<Files<1>>,
    /// The check that the accounts in a changed file must pass.
    pub check_accounts: AccountCheck,
    /// The certificate and key files, which are reloaded when they change, and the settings made from them; `None` for
    /// plain HTTP.
    pub tls: Option<(Files<2>, ServerConfig)>,
    /// The settings for bearer tokens; `None` if no bearer tokens are accepted.
    pub oauth: Option<OAuthConfig>,
    /// The domains under which accounts are addressed in host style.
    pub domains: Vec<String>,
    /// Whether requests for accounts with the well-known key may name any host. Otherwise, they must name this machine,
    /// which protects these accounts from web pages.
    pub development_key_for_any_host: bool,
    /// The maximum time that a query runs before it responds with a continuation token.
    pub query_time: Duration,
    /// What the secondary endpoint serves.
    pub secondary: Secondary,
    /// Whether the primary endpoint also serves statistics, in path style.
    pub stats_on_primary: bool,
    /// Whether the explorer is served, below `/_rowhouse/`.
    pub explorer: bool,
    /// The maximum number of concurrent connections.
    pub connections_max: usize,
    /// The maximum number of connections from one address; `None` for no limit.
    pub connections_per_address_max: Option<usize>,
    /// The maximum number of requests in flight.
    pub requests_max: usize,
    /// The memory for bodies of requests and responses, in bytes; at least [`crate::MEMORY_BYTES_MIN`].
    pub body_bytes: usize,
    /// The maximum number of entities served per second; `None` for no limit.
    pub targets: Option<Targets>,
    /// The conditions of the cloud that are rehearsed; `None` for none.
    pub rehearsal: Option<RehearsalSettings>,
    /// The quota of accounts without their own quota.
    pub quota: Quota,
    /// Whether the server keeps metrics for accounts, in tables of each account.
    pub has_analytics: bool,
    /// Whether every response names the same version as the emulator.
    pub names_emulator_version: bool,
    /// The parts of the program that the test controls need; `None` if the controls are off. The admin listener serves
    /// the controls. If they are on, the account file is not reloaded.
    pub test_controls: Option<TestControlSettings>,
    /// The faults that a test scripts for single requests; `None` for none.
    pub faults: Option<FaultScript>,
    /// The maximum time that requests may continue after the server has been asked to stop.
    pub shutdown_time: Duration,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("accounts", &self.accounts).finish_non_exhaustive()
    }
}
