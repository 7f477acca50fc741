//! The limits of the client. Names end with their unit.
//!
//! ```
//! use rowhouse_client::RetryPolicy;
//! use rowhouse_client::limits::{ATTEMPTS_MAX, PAUSE_MAX, PAUSE_MIN};
//!
//! let twice_as_patient = RetryPolicy::exponential().attempts(2 * ATTEMPTS_MAX).pauses(PAUSE_MIN, 2 * PAUSE_MAX);
//! # let _ = twice_as_patient;
//! ```

use std::time::Duration;

/// The maximum size of a response body, in bytes: 64 MiB. A page has at most 4 MiB of entities, whose JSON can be six
/// times as large. A larger page is requested again with fewer entities.
pub const RESPONSE_BODY_BYTES_MAX: usize = http_client::limits::RESPONSE_BODY_BYTES_MAX;
/// The maximum length of a stored error code, in bytes. The service's own codes are shorter.
pub const ERROR_CODE_BYTES_MAX: usize = 256;
/// The maximum length of a stored error message, in bytes.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 8 * 1024;
/// The maximum size of a transaction's body, in bytes: 4 MiB minus a margin for bytes that proxies add (01 §5).
pub const TRANSACTION_BODY_BYTES_MAX: usize = 4 * 1024 * 1024 - 16 * 1024;
/// The maximum number of entities in a page (04 §5).
pub const PAGE_ENTITIES_MAX: usize = model::limits::PAGE_RESULTS_MAX;
/// The default number of transactions that a bulk writer sends concurrently.
pub const BULK_CONCURRENCY: usize = 8;
/// The maximum number of operations buffered in a bulk writer.
pub const BULK_BUFFER_OPERATIONS_MAX: usize = 20_000;
/// The maximum size of the properties buffered in a bulk writer, in bytes: 16 MiB.
pub const BULK_BUFFER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The maximum size of the properties in one transaction of a bulk writer, in bytes: 2 MiB. If their JSON exceeds the
/// maximum request size, the writer splits the transaction.
pub const BULK_TRANSACTION_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The maximum number of groups of a partition that wait in a bulk writer for earlier operations on the same entities.
pub(crate) const BULK_WAITING_GROUPS_MAX: usize = 32;
/// The maximum number of failures listed in the report of a bulk writer. The report counts all failures.
pub const BULK_FAILURES_MAX: usize = 1000;
/// The maximum number of times that [`Table::update`](crate::Table::update) reads an entity if other clients keep
/// changing it.
pub const UPDATE_ROUNDS_MAX: u32 = 100;
/// The default number of key ranges that a scan reads concurrently.
pub const SCAN_CONCURRENCY: usize = 8;
/// The pause before the second request for further changes, while nothing changes. Each further pause is twice as long.
pub const CHANGES_PAUSE_MIN: Duration = Duration::from_millis(20);
/// The default maximum pause between two requests for further changes.
pub const CHANGES_PAUSE_MAX: Duration = Duration::from_millis(500);
/// The default maximum number of attempts of an operation.
pub const ATTEMPTS_MAX: u32 = 5;
/// The maximum pause after the first attempt. The maximum doubles after each further attempt.
pub const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The maximum pause between attempts, unless the service requests a longer one.
pub const PAUSE_MAX: Duration = Duration::from_secs(15);
/// The maximum pause that the client accepts from `Retry-After`.
pub const RETRY_AFTER_MAX: Duration = Duration::from_mins(2);
/// The timeout for one attempt, which includes receiving the body of the response. The service's own timeout is 30 s
/// (02 §9).
pub const ATTEMPT_TIME_MAX: Duration = http_client::limits::REQUEST_TIME_MAX;
/// The timeout for opening a connection.
pub const CONNECT_TIME_MAX: Duration = http_client::limits::CONNECT_TIME_MAX;
/// The maximum idle time of a connection. Servers and load balancers close idle connections after 60 s or more, and a
/// request sent while the connection is being closed would be lost.
pub const CONNECTION_IDLE_MAX: Duration = http_client::limits::CONNECTION_IDLE_MAX;
/// The maximum number of pages read when listing tables. It protects against a service whose list never ends.
pub const TABLE_PAGES_MAX: usize = 10_000;

const _: () = assert!(TRANSACTION_BODY_BYTES_MAX < model::limits::REQUEST_BODY_BYTES_MAX);
