//! The settings of a server: checked values, independent of their source.

use crate::accounts::{Accounts, Quota};
use crate::authorization::bearer::BearerTokens;
use crate::limits::throttle::Targets;
use crate::rehearsal::RehearsalSettings;
use crate::reload::Files;
use crate::replication::Replicated;
use crate::request::{FaultScript, TrustedProxies};
use crate::test_controls::{TestClock, TestControlSettings};
use engine::LoadMonitor;
use model::limits::QUERY_EXECUTION_SECONDS_DEFAULT;
use model::{AccountName, Dialect, EntityLimits};
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

/// The requests whose reasons are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasonAudience {
    /// Requests for the development account, whose key is public.
    Development,
    /// All requests.
    Everyone,
    /// No requests.
    Nobody,
}

/// Where the server tells why it refuses a request.
#[derive(Debug, Clone, Copy)]
pub struct ReasonSettings {
    /// The requests whose reasons are logged.
    pub log: ReasonAudience,
    /// Whether the log shows the wrong values, which may be parts of entities.
    pub log_values: bool,
    /// The requests whose responses have a header with the reason.
    pub header: ReasonAudience,
}

impl Default for ReasonSettings {
    fn default() -> Self {
        Self { log: ReasonAudience::Development, log_values: false, header: ReasonAudience::Development }
    }
}

/// The settings that stay the same while a server runs. The default values are the defaults of `rowhouse serve`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The service that the server answers like.
    pub dialect: Dialect,
    /// The account of requests whose URLs name no account of this server.
    pub default_account: Option<AccountName>,
    /// The domains under which accounts are addressed in host style.
    pub domains: Vec<String>,
    /// The proxies that say which client a request comes from, and whether it uses HTTPS.
    pub proxies: TrustedProxies,
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
    /// Whether the server offers what the cloud service does not have.
    pub extensions: bool,
    /// Whether requests can store the largest entities that the server can store, whatever the dialect.
    pub large_entities: bool,
    /// The maximum number of concurrent connections.
    pub connections_max: usize,
    /// The maximum number of connections from one address; `None` for no limit.
    pub connections_per_address_max: Option<usize>,
    /// The maximum number of requests in flight.
    pub requests_max: usize,
    /// The maximum number of concurrent streams of changes.
    pub change_streams_max: usize,
    /// The memory for bodies of requests and responses, in bytes; at least [`crate::MEMORY_BYTES_MIN`].
    pub body_bytes: usize,
    /// The maximum number of entities served per second; `None` for no limit.
    pub targets: Option<Targets>,
    /// The conditions of the cloud that are rehearsed; `None` for none.
    pub rehearsal: Option<RehearsalSettings>,
    /// The quota of accounts without their own quota.
    pub quota: Quota,
    /// Replication, if this server is a primary with standbys or a standby.
    pub replication: Option<Arc<dyn Replicated>>,
    /// The load of the database, if it is a cluster whose load is measured. Clients can read it with extensions.
    pub load: Option<LoadMonitor>,
    /// Whether the server keeps metrics for accounts, in tables of each account.
    pub has_analytics: bool,
    /// Whether every response names the same version as the emulator.
    pub names_emulator_version: bool,
    /// Where the server tells why it refuses a request.
    pub reasons: ReasonSettings,
    /// The maximum time that requests may continue after the server has been asked to stop.
    pub shutdown_time: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            dialect: Dialect::default(),
            default_account: None,
            domains: Vec::new(),
            proxies: TrustedProxies::default(),
            development_key_for_any_host: false,
            query_time: Duration::from_secs(QUERY_EXECUTION_SECONDS_DEFAULT),
            // The secondary endpoint shows nothing that the primary endpoint hides.
            secondary: Secondary::Mirror,
            stats_on_primary: false,
            explorer: false,
            extensions: false,
            large_entities: false,
            connections_max: 10_000,
            connections_per_address_max: None,
            requests_max: 1024,
            change_streams_max: 64,
            body_bytes: 512 * 1024 * 1024,
            targets: None,
            rehearsal: None,
            quota: Quota::default(),
            replication: None,
            load: None,
            has_analytics: false,
            names_emulator_version: false,
            reasons: ReasonSettings::default(),
            shutdown_time: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// Returns the limits on the entities that requests store.
    pub(crate) fn entity_limits(&self) -> &'static EntityLimits {
        if self.large_entities { &EntityLimits::WIDEST } else { self.dialect.entity_limits() }
    }
}

/// Rejects accounts that the server must not have, such as those with a well-known key on a public address.
pub type AccountCheck = Box<dyn Fn(&Accounts) -> anyhow::Result<()> + Send + Sync>;

/// The accounts, and how clients and the server prove their identity.
pub struct Access {
    /// The accounts at startup.
    pub accounts: Accounts,
    /// The file from which the accounts were read, and from which they are reloaded when it changes; `None` if there is
    /// no file.
    pub account_file: Option<Files<1>>,
    /// The check that the accounts in a changed file must pass.
    pub check_accounts: AccountCheck,
    /// `None` if no bearer tokens are accepted.
    pub tokens: Option<BearerTokens>,
    /// The certificate and key files, which are reloaded when they change, and the settings made from them; `None` for
    /// plain HTTP.
    pub tls: Option<(Files<2>, ServerConfig)>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("accounts", &self.accounts).finish_non_exhaustive()
    }
}

/// The parts of a server that a test controls.
#[derive(Debug)]
pub struct TestHooks {
    /// The clock of the server and of its engine. A test may move it without its clients' knowledge, so requests may
    /// also be dated by the real time.
    pub clock: TestClock,
    /// The faults that the test scripts for single requests; `None` for none.
    pub faults: Option<FaultScript>,
    /// The parts of the program that the test controls need; `None` if the controls are off. The admin listener serves
    /// the controls. If they are on, the account file is not reloaded.
    pub controls: Option<TestControlSettings>,
}
