//! The bounds of the client, each with its unit at the end of its name.

use std::time::Duration;

/// Largest answer that is read, in bytes: 64 MiB. A page of the service has 4 MiB of entities, which JSON may make six
/// times as long; a page that is larger all the same is asked for again with fewer entities.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Largest body of a transaction that is sent, in bytes: 4 MiB less some room for what proxies add (01 §5).
pub const TRANSACTION_BODY_BYTES_MAX: usize = 4 * 1024 * 1024 - 16 * 1024;
/// How often an operation is tried before it is given up.
pub const ATTEMPTS_MAX: u32 = 10;
/// The pause behind the first attempt; each one after that is twice as long.
pub const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The longest pause that this client chooses by itself.
pub const PAUSE_MAX: Duration = Duration::from_secs(15);
/// The longest pause that a service may ask for with `Retry-After`.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);
/// How long one attempt may take, the whole answer included. The service gives up after 30 s (02 §9).
pub const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a connection may take to open.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(15);
/// Most pages of tables that are read, so that a service which never ends its list is noticed.
pub const TABLE_PAGES_MAX: usize = 10_000;

const _: () = assert!(TRANSACTION_BODY_BYTES_MAX < model::limits::REQUEST_BODY_BYTES_MAX);
