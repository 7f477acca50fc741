//! The limits of the client. The name of each ends with its unit.
//!
//! ```
//! use rowhouse_client::RetryPolicy;
//! use rowhouse_client::limits::{ATTEMPTS_MAX, PAUSE_MAX, PAUSE_MIN};
//!
//! let twice_as_patient = RetryPolicy::exponential().attempts(2 * ATTEMPTS_MAX).pauses(PAUSE_MIN, 2 * PAUSE_MAX);
//! # let _ = twice_as_patient;
//! ```

use std::time::Duration;

/// Largest body of a response, in bytes: 64 MiB. A page has at most 4 MiB of entities, which may be six times as long in
/// JSON. If a page is larger all the same, it is requested again with fewer entities.
pub const RESPONSE_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest error code that is kept, in bytes; those of the service are shorter.
pub const ERROR_CODE_BYTES_MAX: usize = 256;
/// Longest message of an error that is kept, in bytes.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 8 * 1024;
/// Largest body of a transaction, in bytes: 4 MiB less a margin for what proxies add (01 §5).
pub const TRANSACTION_BODY_BYTES_MAX: usize = 4 * 1024 * 1024 - 16 * 1024;
/// Most entities of a page (04 §5).
pub const PAGE_ENTITIES_MAX: usize = model::limits::PAGE_RESULTS_MAX;
/// How many transactions a bulk writer sends at a time, unless the program says otherwise.
pub const BULK_CONCURRENCY: usize = 8;
/// Most operations that wait in a bulk writer.
pub const BULK_BUFFER_OPERATIONS_MAX: usize = 20_000;
/// Most bytes of properties that wait in a bulk writer: 16 MiB.
pub const BULK_BUFFER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most bytes of the properties of a transaction of a bulk writer: 2 MiB. As JSON they may be longer than a request can be; the
/// transaction is divided then.
pub const BULK_TRANSACTION_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most failures that the report of a bulk writer lists. All are counted.
pub const BULK_FAILURES_MAX: usize = 1000;
/// How often [`Table::update`](crate::Table::update) reads an entity that others keep changing.
pub const UPDATE_ROUNDS_MAX: u32 = 100;
/// Number of attempts of an operation, unless the policy says otherwise.
pub const ATTEMPTS_MAX: u32 = 5;
/// Longest pause after the first attempt; it doubles after each further attempt.
pub const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Longest pause between attempts that the client chooses by itself.
pub const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Longest pause that the client accepts from `Retry-After`.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);
/// Longest time for one attempt, including the body of the response. The service gives up after 30 s (02 §9).
pub const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(60);
/// Longest time for opening a connection.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(15);
/// Longest time for which a connection without requests is kept. Servers and load balancers close theirs after 60 s or more, and a
/// request that is sent at that moment is lost.
pub const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(30);
/// Most pages of tables that are read, so that a service whose list never ends is noticed.
pub const TABLE_PAGES_MAX: usize = 10_000;

const _: () = assert!(TRANSACTION_BODY_BYTES_MAX < model::limits::REQUEST_BODY_BYTES_MAX);
