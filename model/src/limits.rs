//! Every number of the protocol, with its unit at the end of the name.
//!
//! Sources are the sections of the protocol specification: "01 §5" is file 01, section 5.
//!
//! Invariant: limits that depend on each other are asserted at compile time.

/// Shortest account name, in characters (01 §1).
pub const ACCOUNT_NAME_CHARS_MIN: usize = 3;
/// Longest account name, in characters (01 §1).
pub const ACCOUNT_NAME_CHARS_MAX: usize = 24;
/// Shortest table name, in characters (01 §2).
pub const TABLE_NAME_CHARS_MIN: usize = 3;
/// Longest table name, in characters (01 §2).
pub const TABLE_NAME_CHARS_MAX: usize = 63;
/// Longest partition key or row key, in UTF-16 code units: 1 KiB (01 §3).
pub const KEY_UTF16_UNITS_MAX: usize = 512;
/// Longest property name, in UTF-16 code units (01 §4).
pub const PROPERTY_NAME_UTF16_UNITS_MAX: usize = 255;
/// Most custom properties of one entity; the three system properties come on top (01 §4).
pub const CUSTOM_PROPERTIES_MAX: usize = 252;
/// Largest entity, in bytes by the documented size formula: 1 MiB (01 §5).
pub const ENTITY_BYTES_MAX: usize = 1024 * 1024;
/// Longest string value, in UTF-16 code units: 64 KiB (01 §5).
pub const STRING_UTF16_UNITS_MAX: usize = 32 * 1024;
/// Longest binary value, in bytes: 64 KiB (01 §5).
pub const BINARY_BYTES_MAX: usize = 64 * 1024;
/// Largest request body, in bytes: 4 MiB (01 §5).
pub const REQUEST_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Slowest body that is waited for, in bytes a second. A slower client keeps the memory of its body from others.
pub const REQUEST_BODY_BYTES_PER_SECOND_MIN: usize = 1024;
/// Time over which the speed of a body is measured, in seconds.
pub const REQUEST_BODY_PROGRESS_SECONDS: usize = 5;
/// Maximum amount that a client may still send after its request was refused before its body was read, in bytes: 64 MiB. It is read
/// and dropped, because a client that sends its whole body first never sees the response otherwise. The largest transaction that
/// client libraries make of entities that each fit is far smaller than 16 bodies of the maximum size.
pub const LINGERING_BYTES_MAX: usize = 16 * REQUEST_BODY_BYTES_MAX;
/// Maximum time for that, in seconds: as long as a body may take.
pub const LINGERING_SECONDS_MAX: u64 = 30;
/// Maximum pause of the client within that time, in seconds.
pub const LINGERING_PAUSE_SECONDS_MAX: u64 = 5;
/// Most operations of one entity group transaction (05 §1).
pub const TRANSACTION_OPERATIONS_MAX: usize = 100;
/// Longest boundary of a multipart body, in characters (05 §2).
pub const BATCH_BOUNDARY_CHARS_MAX: usize = 70;
/// Most headers of one part of a batch, in bytes, and as much again for the operation in it: the longest target and 16 KiB.
pub const BATCH_PART_HEADER_BYTES_MAX: usize = REQUEST_TARGET_BYTES_MAX + 16 * 1024;
/// Most entities, or tables, of one page (04 §5).
pub const PAGE_RESULTS_MAX: usize = 1000;
/// Longest body of one page, in bytes: 4 MiB (04 §6). A page of one entity may be longer.
pub const PAGE_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Default time that one query may run before it returns a continuation token, in seconds (04 §6).
pub const QUERY_EXECUTION_SECONDS_DEFAULT: u64 = 5;
/// Longest and default time that one request may take, in seconds (02 §9).
pub const REQUEST_TIMEOUT_SECONDS_MAX: u64 = 30;
/// Most properties that `$select` may name (04 §4).
pub const SELECT_PROPERTIES_MAX: usize = 255;
/// Longest filter text, in bytes (04 §2: a cap on size, not on the number of comparisons).
pub const FILTER_TEXT_BYTES_MAX: usize = 32 * 1024;
/// Deepest nesting of a filter expression: parentheses and `not` together (04 §2).
pub const FILTER_DEPTH_MAX: usize = 256;
/// Most separate key ranges that a query plan uses before it falls back to one covering range.
pub const PLAN_RANGES_MAX: usize = 16;
/// Most key ranges of a query that the header about its cost shows.
pub const EXPLAIN_RANGES_MAX: usize = 8;
/// Most characters of a key that the header about the cost of a query shows.
pub const EXPLAIN_KEY_CHARS_MAX: usize = 64;
/// Longest header about the cost of a query, in bytes. Proxies take heads of 8 KiB, and there are other headers.
pub const EXPLAIN_HEADER_BYTES_MAX: usize = 4 * 1024;
/// How far a signed request's date may be from the server's clock, in seconds: 15 minutes (07 §5).
pub const CLOCK_SKEW_SECONDS_MAX: u64 = 15 * 60;
/// Longest `x-ms-client-request-id` that is echoed, in characters (01 §10).
pub const CLIENT_REQUEST_ID_CHARS_MAX: usize = 1024;
/// Longest request target (path and query), in bytes. The floor is 8 KiB (01 §3); HTTP libraries stop at 64 KiB.
pub const REQUEST_TARGET_BYTES_MAX: usize = 64 * 1024 - 2;
/// What a connection may receive of a request's head before it counts, in bytes: what its buffer has room for anyway.
pub const HEAD_BYTES_UNCOUNTED: usize = 8 * 1024;
/// Most bytes of the heads of requests that are longer, of all connections together: 16 MiB. Of the connections that have not
/// sent all of theirs, the one that has waited longest is closed.
pub const HEADS_BYTES_MAX: isize = 16 * 1024 * 1024;
/// Slowest response that a client may read, in bytes a second. A slower one keeps memory from others.
pub const RESPONSE_BYTES_PER_SECOND_MIN: u64 = 1024;
/// Time over which the speed of a response is measured, in seconds.
pub const RESPONSE_PROGRESS_SECONDS: u64 = 60;
/// Longest host that a request may name, in bytes: a domain name (RFC 1035: 253 characters), its root, and a port.
pub const HOST_BYTES_MAX: usize = 253 + ".".len() + ":65535".len();
/// Shortest account key, in bytes after Base64 decoding (07 §1).
pub const ACCOUNT_KEY_BYTES_MIN: usize = 16;
/// How far after the request a user delegation key may end, and how far from it the key may begin, in seconds: 7 days
/// (08 §11.1).
pub const USER_DELEGATION_KEY_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;
/// Longest id, tenant, service or version of a user delegation key, in bytes: a Guid has 36, and issuers other than the cloud's may
/// have longer ids.
pub const USER_DELEGATION_FIELD_BYTES_MAX: usize = 256;
/// Most stored access policies of one table (10 §7).
pub const POLICIES_PER_TABLE_MAX: usize = 5;
/// Longest id of a stored access policy, in UTF-16 code units (10 §7).
pub const POLICY_ID_UTF16_UNITS_MAX: usize = 64;
/// Shortest time that analytics data are kept, in days (10 §1).
pub const RETENTION_DAYS_MIN: u16 = 1;
/// Longest time that analytics data are kept, in days (10 §1).
pub const RETENTION_DAYS_MAX: u16 = 365;
/// Most CORS rules of an account (10 §2).
pub const CORS_RULES_MAX: usize = 5;
/// Longest text of all CORS rules of an account, in bytes without the tags: 2 KiB (10 §2).
pub const CORS_TEXT_BYTES_MAX: usize = 2 * 1024;
/// Most origins of one CORS rule (10 §2).
pub const CORS_ORIGINS_MAX: usize = 64;
/// Most whole header names in one list of a CORS rule (10 §2).
pub const CORS_HEADER_LITERALS_MAX: usize = 64;
/// Most header prefixes in one list of a CORS rule (10 §2).
pub const CORS_HEADER_PREFIXES_MAX: usize = 2;
/// Longest origin or header of a CORS rule, in characters (10 §2).
pub const CORS_ITEM_CHARS_MAX: usize = 256;
/// Longest time that a browser may cache the response to a preflight request, in seconds. The specification names no
/// bound; client libraries have 32 bits for the value.
pub const CORS_MAX_AGE_SECONDS_MAX: u32 = i32::MAX as u32;
/// Largest body of an operation whose body is XML, in bytes: 1 MiB (10).
pub const XML_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Deepest nesting of the elements of an Atom entry. Those of client libraries have four levels.
pub const ATOM_DEPTH_MAX: usize = 16;
/// Most attributes of one element of an Atom entry. Those of client libraries have four.
pub const ATOM_ATTRIBUTES_MAX: usize = 32;
/// Most namespaces that an Atom entry declares, counting those in scope.
pub const ATOM_NAMESPACES_MAX: usize = 32;
/// Most properties that are read of an Atom entry; an entity has fewer.
pub const ATOM_PROPERTIES_MAX: usize = 4096;
/// Most members that are kept of a JSON object. An entity has fewer, even if each of its properties declares its type.
pub const JSON_MEMBERS_MAX: usize = 4096;
/// Largest bearer token, in bytes: 16 KiB (09 §6).
pub const BEARER_TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Default difference allowed between the clocks of an issuer and this server, in seconds (09 §6).
pub const BEARER_LEEWAY_SECONDS_DEFAULT: u64 = 300;
/// Largest difference that may be allowed, in seconds (09 §6).
pub const BEARER_LEEWAY_SECONDS_MAX: u64 = 600;
/// How long an operation on a shared database is retried before the response is `ServerBusy`, in seconds.
pub const STORE_ATTEMPTS_SECONDS_MAX: u64 = 8;
/// How long a shared database may work on one statement, waits for locks included, in seconds.
pub const STORE_STATEMENT_SECONDS_MAX: u64 = 10;
/// How long a statement waits for a lock in a shared database, in seconds: less than for the statement, because the database then
/// says that nothing happened.
pub const STORE_LOCK_SECONDS_MAX: u64 = 8;
/// Longest wait for a response of a shared database, in seconds: longer than the database's own timeout.
pub const STORE_ATTEMPT_SECONDS_MAX: u64 = 14;
/// How long a request waits for one of the connections to a shared database, in seconds.
pub const STORE_CONNECTION_WAIT_SECONDS_MAX: u64 = 5;
/// Idle time after which a shared database ends a transaction, in seconds.
pub const STORE_IDLE_TRANSACTION_SECONDS_MAX: u64 = 30;
/// Amount that a page reads from a shared database at a time, in bytes, as far as the size of its entities is known.
pub const STORE_CHUNK_BYTES: usize = 1024 * 1024;
/// Most tables of a shared database whose ids one server caches in memory; beyond it the cache is cleared.
pub const STORE_TABLES_KNOWN_MAX: usize = 100_000;
/// Default target of throttling for an account, in entities a second: the published target of the service.
pub const ACCOUNT_ENTITIES_PER_SECOND_DEFAULT: u64 = 20_000;
/// Default target of throttling for a partition, in entities a second: the published target of the service.
pub const PARTITION_ENTITIES_PER_SECOND_DEFAULT: u64 = 2_000;
/// An entity up to this size counts once for throttling, in bytes: the published targets of the service are for entities of
/// 1 KiB. A larger one counts once for each started KiB.
pub const THROTTLE_ENTITY_BYTES: usize = 1024;
/// Largest target of throttling, in entities a second. It is counted in whole nanoseconds an entity.
pub const THROTTLE_TARGET_MAX: u64 = 1_000_000;
/// Most partitions, and most accounts, that throttling keeps count of. Each takes about 20 bytes.
pub const THROTTLE_BUCKETS_MAX: usize = 64 * 1024;
/// Number of shards of the counts for throttling, each with its own lock.
pub const THROTTLE_SHARDS: usize = 16;
/// Interval at which counts that are no longer needed are removed, in seconds.
pub const THROTTLE_SWEEP_SECONDS: u64 = 10;
/// Longest time that `--rehearse` lets a deletion or a change of settings take, in seconds.
pub const REHEARSAL_SECONDS_MAX: u64 = 3600;
/// Longest latency of `--rehearse`, in seconds: the service answers within 30 s.
pub const REHEARSAL_LATENCY_SECONDS_MAX: u64 = 30;
/// Most deletions and changes of settings of one kind that `--rehearse` holds back at a time; further ones take effect at once.
pub const REHEARSAL_CHANGES_MAX: usize = 10_000;
/// Most empty pages in a row that `--rehearse` puts before entities.
pub const REHEARSAL_EMPTY_PAGES_MAX: usize = 3;
/// Interval at which accounts are checked for whether their quota needs a new count, in milliseconds.
pub const QUOTA_LOOK_MILLISECONDS: u64 = 500;
/// Most accounts whose use is counted for quotas at one time.
pub const QUOTA_COUNTS_MAX: usize = 4;
/// How long a count of an account's use stays valid, in seconds, if the account is far from its quota.
pub const QUOTA_COUNT_SECONDS: u64 = 60;
/// The time between two counts is at least this many times the duration of a count.
pub const QUOTA_COUNT_SHARE: u32 = 50;
/// The same, if the uncertainty of the last count decides about requests.
pub const QUOTA_DOUBT_SHARE: u32 = 4;
/// Most tables of an account whose use is counted separately, for quotas on tables. Each takes about 100 bytes.
pub const QUOTA_TABLES_COUNTED_MAX: usize = 100_000;
/// Minutes of an hour, the intervals of analytics.
pub const MINUTES_OF_HOUR: i64 = 60;
/// Most intervals of analytics, over all accounts, that are kept in memory while they cannot be written.
pub const ANALYTICS_PAGES_MAX: usize = 10_000;
/// Most attempts to write the analytics of an interval when other servers write the same entities.
pub const ANALYTICS_WRITE_ATTEMPTS_MAX: usize = 20;
/// Most pages of old analytics of a table that are deleted at one time, once an hour.
pub const ANALYTICS_SWEEP_STEPS_MAX: usize = 1000;
/// Longest line of an exported file, in bytes: an entity of 1 MiB whose text is written with six bytes a character has
/// about half as much.
pub const EXPORT_LINE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most different properties of a table that is exported as CSV; each is a pair of columns.
pub const EXPORT_COLUMNS_MAX: usize = 4096;
/// Most key ranges that a table is split into, to read several at the same time.
pub const TABLE_RANGES_MAX: usize = 64;
/// Most queries that look for key ranges in one table.
pub const TABLE_PROBES_MAX: usize = 128;
/// Largest manifest of an export, in bytes: room for some hundred thousand tables.
pub const EXPORT_MANIFEST_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most entities that an import reads ahead of the last written one.
pub const IMPORT_WINDOW_ENTITIES_MAX: usize = 4000;
/// Most bytes of the entities that an import reads ahead, by the size formula, except the last of them.
pub const IMPORT_WINDOW_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Largest progress file of a command, in bytes: room for some hundred thousand tables.
pub const STATE_FILE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Widest column of a table on a terminal, in characters, unless it is the only one.
pub const SHOWN_COLUMN_CHARS_MAX: usize = 48;

/// Most connections to the admin listener at one time. Each keeps its place for a quarter of a second, so a thousand a second can
/// be admitted, however many come; with fewer places, the kernel's queue of an attacked listener filled, and it dropped others.
pub const ADMIN_CONNECTIONS_MAX: usize = 256;
/// Largest head of a request to the admin listener, in bytes.
pub const ADMIN_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Largest body of a request to the admin listener, in bytes: a filter of the log, or a control
/// of a test.
pub const ADMIN_BODY_BYTES_MAX: usize = 4 * 1024;
/// Most accounts that tests may have made at one time.
pub const TEST_ACCOUNTS_MAX: usize = 10_000;
/// Most snapshots that tests may have taken at one time.
pub const TEST_SNAPSHOTS_MAX: usize = 1000;
/// How long before the end of the range of times the clock of a test stops, in seconds, so that Timestamps, which grow with every
/// write, do not reach the end: a day has room for more writes than any test makes.
pub const TEST_CLOCK_END_SECONDS: i64 = 86_400;
/// How long a request to the admin listener may take, in seconds.
pub const ADMIN_REQUEST_SECONDS_MAX: u64 = 10;
/// How long a connection to the admin listener may be idle, in seconds.
pub const ADMIN_IDLE_SECONDS_MAX: u64 = 60;
/// How long the endpoints for readiness and metrics wait for the storage, in seconds.
pub const READINESS_SECONDS_MAX: u64 = 2;
/// Most accounts with metrics of their own.
pub const METRICS_ACCOUNTS_MAX: usize = 200;
/// Most tables with metrics of their own.
pub const METRICS_TABLES_MAX: usize = 1000;
/// How long metrics keep an unused table, in seconds: a day.
pub const METRICS_TABLE_IDLE_SECONDS_MAX: u64 = 24 * 3600;
/// Longest line of the log, in bytes, before control characters in it are escaped: the text to sign of a usual request
/// several times over. In JSON a longer line has its texts cut instead.
pub const LOG_LINE_BYTES_MAX: usize = 4 * 1024;
/// Longest text in a line of the log in JSON that would be too long, in bytes.
pub const LOG_TEXT_BYTES_MAX: usize = 1024;
/// Most failures of requests without a valid credential that are logged in a second, in the long run.
pub const DENIALS_LOGGED_PER_SECOND: u32 = 10;
/// Most of them that are logged at once.
pub const DENIALS_LOGGED_AT_ONCE_MAX: u32 = 100;
/// After this time the log gets the number of those that were not logged, in seconds.
pub const DENIALS_SUMMARY_SECONDS: u64 = 5;
/// Default size of the queue of spans for the OpenTelemetry collector.
pub const TRACE_QUEUE_SPANS_DEFAULT: usize = 2048;
/// Largest size of the queue of spans that the environment may set.
pub const TRACE_QUEUE_SPANS_MAX: usize = 65_536;
/// Default number of spans that are sent together.
pub const TRACE_BATCH_SPANS_DEFAULT: usize = 512;
/// Most child spans of the span of one request.
pub const TRACE_STEPS_MAX: usize = 32;
/// Longest text of a span, in characters. Longer texts are cut, so that the queue of spans is bounded in bytes.
pub const TRACE_TEXT_CHARS_MAX: usize = 1024;
/// Longest `tracestate` that is propagated, in bytes: the minimum of W3C Trace Context.
pub const TRACE_STATE_BYTES_MAX: usize = 512;
/// Longest response of a collector that is read, in bytes.
pub const TRACE_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long a shutdown waits for analytics to be written, in seconds, even if the requests have
/// used up the time to shut down.
pub const ANALYTICS_STOP_SECONDS_MIN: u64 = 2;
/// How long a shutdown waits for the last spans to be sent, in seconds.
pub const TRACE_STOP_SECONDS_MAX: u64 = 2;

/// Size of one UTF-16 code unit, in bytes, as the size formula counts it.
pub const UTF16_UNIT_BYTES: usize = 2;

const _: () = assert!(LOG_TEXT_BYTES_MAX < LOG_LINE_BYTES_MAX);
const _: () = assert!(READINESS_SECONDS_MAX < ADMIN_REQUEST_SECONDS_MAX);
const _: () = assert!(KEY_UTF16_UNITS_MAX * UTF16_UNIT_BYTES == 1024);
const _: () = assert!(STRING_UTF16_UNITS_MAX * UTF16_UNIT_BYTES == BINARY_BYTES_MAX);
const _: () = assert!(ENTITY_BYTES_MAX <= REQUEST_BODY_BYTES_MAX);
const _: () = assert!(ENTITY_BYTES_MAX <= PAGE_BODY_BYTES_MAX);
const _: () = assert!(CUSTOM_PROPERTIES_MAX < ATOM_PROPERTIES_MAX);
const _: () = assert!(CUSTOM_PROPERTIES_MAX * 2 < JSON_MEMBERS_MAX);
const _: () = assert!(ENTITY_BYTES_MAX * 4 < EXPORT_LINE_BYTES_MAX);
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
