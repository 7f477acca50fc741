//! All limits and default values. Each name ends with the unit.
//!
//! Sources are the sections of the protocol specification: "01 §5" is file 01, section 5.
//!
//! Invariant: limits that depend on each other are asserted at compile time.

/// Minimum length of an account name, in characters (01 §1).
pub const ACCOUNT_NAME_CHARS_MIN: usize = 3;
/// Maximum length of an account name, in characters (01 §1).
pub const ACCOUNT_NAME_CHARS_MAX: usize = 24;
/// Minimum length of a table name, in characters (01 §2).
pub const TABLE_NAME_CHARS_MIN: usize = 3;
/// Maximum length of a table name, in characters (01 §2).
pub const TABLE_NAME_CHARS_MAX: usize = 63;
/// Maximum length of a partition key or row key, in UTF-16 code units: 1 KiB (01 §3).
pub const KEY_UTF16_UNITS_MAX: usize = 512;
/// Maximum length of a property name, in UTF-16 code units (01 §4).
pub const PROPERTY_NAME_UTF16_UNITS_MAX: usize = 255;
/// Maximum number of custom properties in an entity, not counting the three system properties (01 §4).
pub const CUSTOM_PROPERTIES_MAX: usize = 252;
/// Maximum size of an entity, in bytes by the documented size formula: 1 MiB (01 §5).
pub const ENTITY_BYTES_MAX: usize = 1024 * 1024;
/// Maximum length of a string value, in UTF-16 code units: 64 KiB (01 §5).
pub const STRING_UTF16_UNITS_MAX: usize = 32 * 1024;
/// Maximum length of a binary value, in bytes: 64 KiB (01 §5).
pub const BINARY_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of custom properties in an entity of Azure Cosmos DB for Table: as many as a record can count
/// (11 §6).
pub const COSMOS_PROPERTIES_MAX: usize = 255;
/// Maximum length of a property name there, in UTF-16 code units (11 §6).
pub const COSMOS_PROPERTY_NAME_UTF16_UNITS_MAX: usize = 1024;
/// Maximum size of an entity there, in bytes as it is stored: 2 MiB (11 §6).
pub const COSMOS_ENTITY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Maximum number of operations in an entity group transaction there (11 §9). A merge needs the memory of the stored
/// entity.
pub const COSMOS_TRANSACTION_OPERATIONS_MAX: usize = 128;
/// Maximum size of the body of a batch there, in bytes: 2 MiB (11 §9).
pub const COSMOS_BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Maximum size of a request body, in bytes: 4 MiB (01 §5).
pub const REQUEST_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Minimum rate at which a client must send a body, in bytes per second. A slower client would block memory that other
/// requests need.
pub const REQUEST_BODY_BYTES_PER_SECOND_MIN: usize = 1024;
/// The interval over which the rate of a body is measured, in seconds.
pub const REQUEST_BODY_PROGRESS_SECONDS: usize = 5;
/// Maximum number of bytes that a client can still send if its request was refused before the body was read: 64 MiB.
/// The bytes are read and discarded, because a client that sends its whole body before it reads would otherwise never
/// see the response. The largest transaction that client libraries build from valid entities is far smaller than 16
/// bodies of the maximum size.
pub const LINGERING_BYTES_MAX: usize = 16 * REQUEST_BODY_BYTES_MAX;
/// Maximum time for which those bytes are read, in seconds: the same as for any body.
pub const LINGERING_SECONDS_MAX: u64 = 30;
/// Maximum time for which the client may pause while those bytes are read, in seconds.
pub const LINGERING_PAUSE_SECONDS_MAX: u64 = 5;
/// Maximum number of operations in an entity group transaction (05 §1).
pub const TRANSACTION_OPERATIONS_MAX: usize = 100;
/// Maximum total size of the records that a transaction stores, in bytes: 160 MiB. A hundred of the largest entities of
/// Azure Table Storage need 150 MiB, so only merges into larger entities can exceed it. What engines write at once
/// depends on it.
pub const TRANSACTION_RECORD_BYTES_MAX: usize = 160 * 1024 * 1024;
/// Maximum length of the boundary of a multipart body, in characters (05 §2).
pub const BATCH_BOUNDARY_CHARS_MAX: usize = 70;
/// Maximum size of the headers of one part of a batch, in bytes: the longest target and 16 KiB. The headers of the
/// operation inside the part have the same limit.
pub const BATCH_PART_HEADER_BYTES_MAX: usize = REQUEST_TARGET_BYTES_MAX + 16 * 1024;
/// Maximum number of entities or tables in one page (04 §5).
pub const PAGE_RESULTS_MAX: usize = 1000;
/// Maximum number of entities that a query skips (`$skip`, an extension). Skipped entities are read.
pub const SKIPPED_ENTITIES_MAX: usize = 1_000_000;
/// Maximum size of the body of one page, in bytes: 4 MiB (04 §6). A page with a single entity may be larger.
pub const PAGE_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum total size of the stored entities that the response to a write contains, in bytes: 2 MiB (02 §4.3). A single
/// entity may be larger. With the records from which it is written, such a response needs the memory of a page.
pub const RETURNED_ENTITIES_BYTES_MAX: usize = PAGE_BODY_BYTES_MAX / 2;
/// Default time after which a query returns a continuation token, in seconds (04 §6).
pub const QUERY_EXECUTION_SECONDS_DEFAULT: u64 = 5;
/// Maximum number of entities that one step of a deletion by filter collects before they are deleted. In most tables,
/// they are deleted in a hundred transactions.
pub const DELETION_STEP_ENTITIES_MAX: usize = 100 * TRANSACTION_OPERATIONS_MAX;
/// Size of the collected keys at which a step of a deletion by filter ends, in bytes. It limits the step's memory.
pub const DELETION_STEP_KEY_BYTES_MAX: usize = 1024 * 1024;
/// Maximum duration of the scan in one step of a deletion by filter, in milliseconds. It limits the work that is lost
/// if the deadline passes before the step's entities are deleted.
pub const DELETION_STEP_MILLISECONDS: u64 = 250;
/// Number of deletions in flight at which a deletion by filter begins no further transaction. Engines sync several
/// transactions together, so this determines how often they sync.
pub const DELETION_ENTITIES_IN_FLIGHT_MAX: usize = 40 * TRANSACTION_OPERATIONS_MAX;
/// Maximum number of transactions in flight in one deletion by filter. It matters if partitions are small.
pub const DELETION_TRANSACTIONS_IN_FLIGHT_MAX: usize = 256;
/// Maximum number of times that a deletion by filter reads an entity that is being changed at the same time.
pub const DELETION_READS_MAX: u32 = 10;
/// Interval between checks of whether tables with a retention are due for a pass that deletes expired entities, in
/// seconds. It is shorter than the time after which another server takes over a lease.
pub const SWEEP_CHECK_SECONDS: u64 = 5;
/// Minimum interval between two passes over a table, in seconds.
pub const SWEEP_INTERVAL_SECONDS: u64 = 20;
/// Minimum interval between two passes, relative to the time in which a pass examines the table.
pub const SWEEP_SHARE: u32 = 5;
/// Maximum duration of a step of a pass, in milliseconds. The pass pauses for at least the same time afterwards.
pub const SWEEP_STEP_MILLISECONDS: u64 = 25;
/// Maximum rate at which a pass deletes entities, per second. Faster deletions would delay clients' writes, as flushes
/// and merges fall behind.
pub const SWEEP_DELETIONS_PER_SECOND: u64 = 10_000;
/// Maximum number of expired entities whose deletion is in flight. Clients' writes in the same group wait for them.
pub const SWEEP_ENTITIES_IN_FLIGHT_MAX: usize = TRANSACTION_OPERATIONS_MAX;
/// Maximum number of transactions in flight that delete expired entities. It matters if partitions are small.
pub const SWEEP_TRANSACTIONS_IN_FLIGHT_MAX: usize = 64;
/// Maximum and default timeout for a request, in seconds (02 §9).
pub const REQUEST_TIMEOUT_SECONDS_MAX: u64 = 30;
/// Maximum number of properties in `$select` (04 §4).
pub const SELECT_PROPERTIES_MAX: usize = 255;
/// Maximum length of a filter, in bytes (04 §2 limits its size, not the number of comparisons).
pub const FILTER_TEXT_BYTES_MAX: usize = 32 * 1024;
/// Maximum nesting depth of a filter expression, counting parentheses, `not` and calls (04 §2).
pub const FILTER_DEPTH_MAX: usize = 256;
/// Maximum number of separate key ranges in a query plan. A filter of the maximum length can compare about 600 keys of
/// usual length, or 2,000 of one character. If a filter needs more ranges, the plan joins neighbours.
pub const PLAN_RANGES_MAX: usize = 4096;
/// Maximum number of areas of keys that planning a query combines with others, which takes up to a millisecond. What
/// would take more is not used to narrow the plan.
pub const PLAN_STEPS_MAX: usize = 4 * PLAN_RANGES_MAX;
/// Maximum number of indexed properties of a table. Each costs every write of the table some time.
pub const TABLE_INDEXES_MAX: usize = 8;
/// Maximum number of bytes of a string (in UTF-8) or of a binary that an index orders. What follows is not compared.
pub const INDEXED_BYTES_MAX: usize = 256;
/// Maximum number of separate ranges of an index that a query reads.
pub const INDEX_RANGES_MAX: usize = 64;
/// Maximum number of key ranges that the query cost header shows.
pub const EXPLAIN_RANGES_MAX: usize = 8;
/// Maximum number of characters of a key that the query cost header shows.
pub const EXPLAIN_KEY_CHARS_MAX: usize = 64;
/// Maximum length of the query cost header, in bytes. Proxies accept about 8 KiB for all headers together.
pub const EXPLAIN_HEADER_BYTES_MAX: usize = 4 * 1024;
/// Maximum difference between a signed request's date and the server's clock, in seconds: 15 minutes (07 §5).
pub const CLOCK_SKEW_SECONDS_MAX: u64 = 15 * 60;
/// Maximum length of an `x-ms-client-request-id` that is echoed, in characters (01 §10).
pub const CLIENT_REQUEST_ID_CHARS_MAX: usize = 1024;
/// Maximum length of a request target (path and query), in bytes. It must be at least 8 KiB (01 §3); HTTP libraries
/// support at most 64 KiB.
pub const REQUEST_TARGET_BYTES_MAX: usize = 64 * 1024 - 2;
/// The maximum duration of a stream of changes, in seconds. A client connects again and continues, with a credential
/// that is checked again.
pub const CHANGE_STREAM_SECONDS_MAX: u64 = 60 * 60;
/// Number of bytes of a request head that do not count towards `HEADS_BYTES_MAX`, because a connection's buffer has
/// space for them in any case.
pub const HEAD_BYTES_UNCOUNTED: usize = 8 * 1024;
/// Maximum total size of all longer request heads, across all connections, in bytes: 16 MiB. When it is exceeded, the
/// server closes the connection that has been waiting longest for the rest of its head.
pub const HEADS_BYTES_MAX: isize = 16 * 1024 * 1024;
/// Minimum rate at which a client must read a response, in bytes per second. A slower client would block memory that
/// other requests need.
pub const RESPONSE_BYTES_PER_SECOND_MIN: u64 = 1024;
/// The interval over which the rate of a response is measured, in seconds.
pub const RESPONSE_PROGRESS_SECONDS: u64 = 60;
/// Maximum length of the host in a request, in bytes: a domain name (RFC 1035: 253 characters), the dot for the root,
/// and a port.
pub const HOST_BYTES_MAX: usize = 253 + ".".len() + ":65535".len();
/// Minimum length of an account key, in bytes after Base64 decoding (07 §1).
pub const ACCOUNT_KEY_BYTES_MIN: usize = 16;
/// Maximum time between the request and the start or the expiry of a user delegation key, in seconds: 7 days (08
/// §11.1).
pub const USER_DELEGATION_KEY_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;
/// Maximum length of an ID, tenant, service or version in a user delegation key, in bytes. A Guid is 36 bytes long, and
/// issuers other than the cloud's may use longer IDs.
pub const USER_DELEGATION_FIELD_BYTES_MAX: usize = 256;
/// Maximum number of stored access policies on a table (10 §7).
pub const POLICIES_PER_TABLE_MAX: usize = 5;
/// Maximum length of a stored access policy's ID, in UTF-16 code units (10 §7).
pub const POLICY_ID_UTF16_UNITS_MAX: usize = 64;
/// Maximum time of a table's retention, in seconds: about a hundred years. It fits 32 bits.
pub const RETENTION_SECONDS_MAX: u32 = 100 * 365 * 24 * 60 * 60;
/// Minimum retention of analytics data, in days (10 §1).
pub const RETENTION_DAYS_MIN: u16 = 1;
/// Maximum retention of analytics data, in days (10 §1).
pub const RETENTION_DAYS_MAX: u16 = 365;
/// Maximum number of CORS rules in an account (10 §2).
pub const CORS_RULES_MAX: usize = 5;
/// Maximum total size of all CORS rules in an account, in bytes, not counting the XML tags: 2 KiB (10 §2).
pub const CORS_TEXT_BYTES_MAX: usize = 2 * 1024;
/// Maximum number of origins in a CORS rule (10 §2).
pub const CORS_ORIGINS_MAX: usize = 64;
/// Maximum number of literal header names in one list of a CORS rule (10 §2).
pub const CORS_HEADER_LITERALS_MAX: usize = 64;
/// Maximum number of header prefixes in one list of a CORS rule (10 §2).
pub const CORS_HEADER_PREFIXES_MAX: usize = 2;
/// Maximum length of an origin or header in a CORS rule, in characters (10 §2).
pub const CORS_ITEM_CHARS_MAX: usize = 256;
/// Maximum time for which a browser may cache the response to a preflight request, in seconds. The specification sets
/// no limit; client libraries use 32 bits for the value.
pub const CORS_MAX_AGE_SECONDS_MAX: u32 = i32::MAX as u32;
/// Maximum size of an XML request body, in bytes: 1 MiB (10).
pub const XML_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Maximum nesting depth of elements in an Atom entry. Client libraries use four levels.
pub const ATOM_DEPTH_MAX: usize = 16;
/// Maximum number of attributes of an element in an Atom entry. Client libraries use four.
pub const ATOM_ATTRIBUTES_MAX: usize = 32;
/// Maximum number of namespaces in scope in an Atom entry.
pub const ATOM_NAMESPACES_MAX: usize = 32;
/// Maximum number of properties that are read from an Atom entry; a valid entity has fewer.
pub const ATOM_PROPERTIES_MAX: usize = 4096;
/// Maximum number of members of a JSON object that are stored. A valid entity has fewer, even if each property has a
/// type annotation.
pub const JSON_MEMBERS_MAX: usize = 4096;
/// Maximum size of a bearer token, in bytes: 16 KiB (09 §6).
pub const BEARER_TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Default tolerance for the difference between an issuer's clock and this server's clock, in seconds (09 §6).
pub const BEARER_LEEWAY_SECONDS_DEFAULT: u64 = 300;
/// Maximum configurable tolerance for the difference between the two clocks, in seconds (09 §6).
pub const BEARER_LEEWAY_SECONDS_MAX: u64 = 600;
/// Maximum duration of retries of an operation on a shared database before the response is `ServerBusy`, in seconds.
pub const STORE_ATTEMPTS_SECONDS_MAX: u64 = 8;
/// Timeout for a statement in a shared database, including waits for locks, in seconds.
pub const STORE_STATEMENT_SECONDS_MAX: u64 = 10;
/// Timeout for a lock in a shared database, in seconds. It is shorter than the statement timeout, because a lock
/// timeout guarantees that nothing changed.
pub const STORE_LOCK_SECONDS_MAX: u64 = 8;
/// Timeout for a response from a shared database, in seconds. It is longer than the database's own timeout.
pub const STORE_ATTEMPT_SECONDS_MAX: u64 = 14;
/// Maximum time that a request waits for a connection to a shared database, in seconds.
pub const STORE_CONNECTION_WAIT_SECONDS_MAX: u64 = 5;
/// Idle timeout after which a shared database ends a transaction, in seconds.
pub const STORE_IDLE_TRANSACTION_SECONDS_MAX: u64 = 30;
/// Target number of bytes that a page reads from a shared database at once, if the average entity size is known.
pub const STORE_CHUNK_BYTES: usize = 1024 * 1024;
/// Maximum number of shared-database tables whose IDs a server caches in memory. Beyond this number, the cache is
/// cleared.
pub const STORE_TABLES_CACHED_MAX: usize = 100_000;
/// Default throttling target for an account, in entities per second: the published target of the service.
pub const ACCOUNT_ENTITIES_PER_SECOND_DEFAULT: u64 = 20_000;
/// Default throttling target for a partition, in entities per second: the published target of the service.
pub const PARTITION_ENTITIES_PER_SECOND_DEFAULT: u64 = 2_000;
/// Maximum size of an entity that counts as one for throttling, in bytes. The published targets of the service are for
/// 1 KiB entities. A larger entity counts once for each KiB or part of a KiB.
pub const THROTTLE_ENTITY_BYTES: usize = 1024;
/// Maximum throttling target, in entities per second. Targets are stored as whole nanoseconds per entity.
pub const THROTTLE_TARGET_MAX: u64 = 1_000_000;
/// Maximum number of partitions, and of accounts, that throttling tracks. Each takes about 20 bytes.
pub const THROTTLE_BUCKETS_MAX: usize = 64 * 1024;
/// Number of shards of the throttling counters, each with its own lock.
pub const THROTTLE_SHARDS: usize = 16;
/// Interval at which unneeded throttling counters are removed, in seconds.
pub const THROTTLE_SWEEP_SECONDS: u64 = 10;
/// Maximum duration that `--rehearse` accepts for a creation, a deletion or a settings change, in seconds.
pub const REHEARSAL_SECONDS_MAX: u64 = 3600;
/// Maximum latency that `--rehearse` accepts, in seconds. The service responds within 30 s.
pub const REHEARSAL_LATENCY_SECONDS_MAX: u64 = 30;
/// Maximum number of creations, of deletions, and of settings changes of one kind, that `--rehearse` delays
/// concurrently. Beyond this number, changes take effect immediately.
pub const REHEARSAL_CHANGES_MAX: usize = 10_000;
/// Maximum number of consecutive empty pages that `--rehearse` inserts before entities.
pub const REHEARSAL_EMPTY_PAGES_MAX: usize = 3;
/// Interval between checks of whether the quotas of accounts require a new count, in milliseconds.
pub const QUOTA_CHECK_MILLISECONDS: u64 = 500;
/// Maximum number of accounts that are counted concurrently for their quotas.
pub const QUOTA_COUNTS_MAX: usize = 4;
/// Time for which a count of an account's usage stays valid if the account is far from its quota, in seconds.
pub const QUOTA_COUNT_SECONDS: u64 = 60;
/// Minimum ratio of the time between two counts of an account's usage to the duration of a count.
pub const QUOTA_COUNT_INTERVAL_RATIO: u32 = 50;
/// The same ratio while the outcome of requests depends on the uncertainty of the last count.
pub const QUOTA_UNCERTAIN_INTERVAL_RATIO: u32 = 4;
/// Maximum number of tables in an account whose usage is counted separately, for quotas on tables. Each takes about 100
/// bytes.
pub const QUOTA_TABLES_COUNTED_MAX: usize = 100_000;
/// Number of minutes in an hour. An analytics interval is a minute or an hour.
pub const MINUTES_OF_HOUR: i64 = 60;
/// Maximum number of analytics intervals, across all accounts, that are kept in memory while analytics cannot be
/// written.
pub const ANALYTICS_PAGES_MAX: usize = 10_000;
/// Maximum number of attempts to write the analytics of an interval while other servers write the same entities.
pub const ANALYTICS_WRITE_ATTEMPTS_MAX: usize = 20;
/// Maximum number of pages of old analytics that the hourly sweep deletes from a table.
pub const ANALYTICS_SWEEP_STEPS_MAX: usize = 1000;
/// Maximum length of a line in an exported file, in bytes. A 2 MiB entity needs less, even if every character takes six
/// bytes.
pub const EXPORT_LINE_BYTES_MAX: usize = 14 * 1024 * 1024;
/// Maximum number of distinct properties in a table that is exported as CSV. Each becomes a pair of columns.
pub const EXPORT_COLUMNS_MAX: usize = 4096;
/// Maximum number of key ranges into which a table is split for parallel reads.
pub const TABLE_RANGES_MAX: usize = 64;
/// Maximum number of queries that are sent to find key ranges in a table.
pub const TABLE_PROBES_MAX: usize = 128;
/// Maximum size of an export manifest, in bytes: enough for several hundred thousand tables.
pub const EXPORT_MANIFEST_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Maximum number of entities that an import reads ahead of the last written one.
pub const IMPORT_WINDOW_ENTITIES_MAX: usize = 4000;
/// Maximum size of the entities that an import reads ahead, in bytes by the size formula, excluding the last entity.
pub const IMPORT_WINDOW_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum size of a command's progress file, in bytes: enough for several hundred thousand tables.
pub const STATE_FILE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Maximum width of a table column on a terminal, in characters, unless the table has only one column.
pub const SHOWN_COLUMN_CHARS_MAX: usize = 48;

/// Maximum number of concurrent connections to the admin listener. While all slots are in use, each connection holds
/// its slot for a quarter of a second, so a thousand connections per second can be admitted under any load. In tests
/// with fewer slots, the kernel's accept queue filled up during an attack, and legitimate connections were dropped.
pub const ADMIN_CONNECTIONS_MAX: usize = 256;
/// Maximum size of a request head on the admin listener, in bytes.
pub const ADMIN_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum size of a request body on the admin listener, in bytes: a log filter or a test control.
pub const ADMIN_BODY_BYTES_MAX: usize = 4 * 1024;
/// Maximum number of accounts that tests can create at once.
pub const TEST_ACCOUNTS_MAX: usize = 10_000;
/// Maximum number of snapshots that tests can hold at once.
pub const TEST_SNAPSHOTS_MAX: usize = 1000;
/// Distance between the end of the supported time range and the instant at which a test clock stops, in seconds.
/// Timestamps increase with every write and must not reach the end of the range. A day has room for more writes than
/// any test makes.
pub const TEST_CLOCK_END_SECONDS: i64 = 86_400;
/// Timeout for a request to the admin listener, in seconds.
pub const ADMIN_REQUEST_SECONDS_MAX: u64 = 10;
/// Idle timeout of a connection to the admin listener, in seconds.
pub const ADMIN_IDLE_SECONDS_MAX: u64 = 60;
/// Maximum time that the readiness and metrics endpoints wait for the storage, in seconds.
pub const READINESS_SECONDS_MAX: u64 = 2;
/// Maximum number of accounts with separate metrics.
pub const METRICS_ACCOUNTS_MAX: usize = 200;
/// Maximum number of tables with separate metrics.
pub const METRICS_TABLES_MAX: usize = 1000;
/// Time after which metrics of an unused table are dropped, in seconds: a day.
pub const METRICS_TABLE_IDLE_SECONDS_MAX: u64 = 24 * 3600;
/// Maximum length of a log line, in bytes, before control characters in it are escaped. Several strings-to-sign of
/// typical requests fit in a line. In a longer JSON line, the strings are truncated instead.
pub const LOG_LINE_BYTES_MAX: usize = 4 * 1024;
/// Length to which strings are truncated in a JSON log line that would otherwise be too long, in bytes.
pub const LOG_STRING_BYTES_MAX: usize = 1024;
/// Maximum sustained rate of logged failures of requests without a valid credential, per second.
pub const DENIALS_LOGGED_PER_SECOND: u32 = 10;
/// Maximum number of such failures that are logged in a burst.
pub const DENIALS_LOGGED_AT_ONCE_MAX: u32 = 100;
/// Interval at which the number of failures that were not logged is logged, in seconds.
pub const DENIALS_SUMMARY_SECONDS: u64 = 5;
/// Default size of the queue of spans for the OpenTelemetry collector.
pub const TRACE_QUEUE_SPANS_DEFAULT: usize = 2048;
/// Maximum configurable size of the queue of spans.
pub const TRACE_QUEUE_SPANS_MAX: usize = 65_536;
/// Default number of spans that are sent together.
pub const TRACE_BATCH_SPANS_DEFAULT: usize = 512;
/// Maximum number of child spans of a request's span.
pub const TRACE_STEPS_MAX: usize = 32;
/// Maximum length of a string in a span, in characters. Longer strings are truncated, which bounds the queue of spans
/// in bytes.
pub const TRACE_TEXT_CHARS_MAX: usize = 1024;
/// Maximum length of a `tracestate` that is propagated, in bytes: the minimum that W3C Trace Context requires.
pub const TRACE_STATE_BYTES_MAX: usize = 512;
/// Maximum number of bytes that are read from a collector's response.
pub const TRACE_RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Minimum time that a shutdown waits for analytics to be written, in seconds, even if requests have used up the
/// shutdown timeout.
pub const ANALYTICS_SHUTDOWN_SECONDS_MIN: u64 = 2;
/// Maximum time that a shutdown waits for the last spans to be sent, in seconds.
pub const TRACE_SHUTDOWN_SECONDS_MAX: u64 = 2;

/// Size of one UTF-16 code unit in the size formula, in bytes.
pub const UTF16_UNIT_BYTES: usize = 2;

const _: () = assert!(LOG_STRING_BYTES_MAX < LOG_LINE_BYTES_MAX);
const _: () = assert!(READINESS_SECONDS_MAX < ADMIN_REQUEST_SECONDS_MAX);
const _: () = assert!(KEY_UTF16_UNITS_MAX * UTF16_UNIT_BYTES == 1024);
const _: () = assert!(STRING_UTF16_UNITS_MAX * UTF16_UNIT_BYTES == BINARY_BYTES_MAX);
const _: () = assert!(ENTITY_BYTES_MAX <= REQUEST_BODY_BYTES_MAX);
const _: () = assert!(COSMOS_BATCH_BYTES_MAX <= REQUEST_BODY_BYTES_MAX);
const _: () = assert!(TRANSACTION_OPERATIONS_MAX * (ENTITY_BYTES_MAX / 2 * 3 + 1024) <= TRANSACTION_RECORD_BYTES_MAX);
const _: () = assert!(ENTITY_BYTES_MAX <= PAGE_BODY_BYTES_MAX);
const _: () = assert!(COSMOS_PROPERTIES_MAX < ATOM_PROPERTIES_MAX);
const _: () = assert!(COSMOS_PROPERTIES_MAX * 2 < JSON_MEMBERS_MAX);
const _: () = assert!(COSMOS_ENTITY_BYTES_MAX * 6 < EXPORT_LINE_BYTES_MAX);
const _: () = assert!(TRANSACTION_OPERATIONS_MAX < IMPORT_WINDOW_ENTITIES_MAX);
const _: () = assert!(XML_BODY_BYTES_MAX <= REQUEST_BODY_BYTES_MAX);
const _: () = assert!(QUERY_EXECUTION_SECONDS_DEFAULT < REQUEST_TIMEOUT_SECONDS_MAX);
const _: () = assert!(STORE_LOCK_SECONDS_MAX < STORE_STATEMENT_SECONDS_MAX);
const _: () = assert!(STORE_STATEMENT_SECONDS_MAX < STORE_ATTEMPT_SECONDS_MAX);
const _: () = assert!(STORE_ATTEMPTS_SECONDS_MAX + STORE_ATTEMPT_SECONDS_MAX < REQUEST_TIMEOUT_SECONDS_MAX);
const _: () = assert!(PARTITION_ENTITIES_PER_SECOND_DEFAULT <= ACCOUNT_ENTITIES_PER_SECOND_DEFAULT);
const _: () = assert!(ACCOUNT_ENTITIES_PER_SECOND_DEFAULT <= THROTTLE_TARGET_MAX);
const _: () = assert!(THROTTLE_BUCKETS_MAX.is_multiple_of(THROTTLE_SHARDS));
const _: () = assert!(STORE_STATEMENT_SECONDS_MAX < STORE_IDLE_TRANSACTION_SECONDS_MAX);
