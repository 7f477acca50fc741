//! Every number of the protocol, with its unit at the end of the name.
//!
//! Sources are the sections of the protocol specification: "01 §5" is file 01, section 5.

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
/// Most operations of one entity group transaction (05 §1).
pub const TRANSACTION_OPERATIONS_MAX: usize = 100;
/// Longest boundary of a multipart body, in characters (05 §2).
pub const BATCH_BOUNDARY_CHARS_MAX: usize = 70;
/// Most headers of one part of a batch, in bytes, and as much again for the operation in it: the longest target and 16 KiB.
pub const BATCH_PART_HEADER_BYTES_MAX: usize = REQUEST_TARGET_BYTES_MAX + 16 * 1024;
/// Most entities, or tables, of one page (04 §5).
pub const PAGE_RESULTS_MAX: usize = 1000;
/// Most entity data of one page, in bytes: 4 MiB (04 §6).
pub const PAGE_ENTITY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Default time that one query may run before it answers with a continuation token, in seconds (04 §6).
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
/// How far a signed request's date may be from the server's clock, in seconds: 15 minutes (07 §5).
pub const CLOCK_SKEW_SECONDS_MAX: u64 = 15 * 60;
/// Longest `x-ms-client-request-id` that is echoed, in characters (01 §10).
pub const CLIENT_REQUEST_ID_CHARS_MAX: usize = 1024;
/// Longest request target (path and query), in bytes. The floor is 8 KiB (01 §3); HTTP libraries stop at 64 KiB.
pub const REQUEST_TARGET_BYTES_MAX: usize = 64 * 1024 - 2;
/// Shortest account key, in bytes after Base64 decoding (07 §1).
pub const ACCOUNT_KEY_BYTES_MIN: usize = 16;
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
/// Longest time that a browser may keep the answer to a preflight request, in seconds. The specification names no
/// bound; client libraries hold the value in 32 bits.
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
/// Largest bearer token, in bytes: 16 KiB (09 §6).
pub const BEARER_TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Default difference allowed between the clocks of an issuer and this server, in seconds (09 §6).
pub const BEARER_LEEWAY_SECONDS_DEFAULT: u64 = 300;
/// Largest difference that may be allowed, in seconds (09 §6).
pub const BEARER_LEEWAY_SECONDS_MAX: u64 = 600;
/// How long an operation on a shared database is tried again before the client is told that the server is busy, in seconds.
pub const STORE_ATTEMPTS_SECONDS_MAX: u64 = 8;
/// How long a shared database may work on one statement, waits for locks included, in seconds.
pub const STORE_STATEMENT_SECONDS_MAX: u64 = 10;
/// How long an answer of a shared database is waited for, in seconds: longer than it needs to give up by itself.
pub const STORE_ATTEMPT_SECONDS_MAX: u64 = 14;
/// How long a request waits for one of the connections to a shared database, in seconds.
pub const STORE_CONNECTION_WAIT_SECONDS_MAX: u64 = 5;
/// When a shared database ends a transaction whose server fell silent, in seconds.
pub const STORE_IDLE_TRANSACTION_SECONDS_MAX: u64 = 30;
/// How much a page asks of a shared database at a time, in bytes, as far as the size of its entities is known.
pub const STORE_CHUNK_BYTES: usize = 1024 * 1024;
/// Most tables of a shared database whose ids one server keeps in memory; beyond it all are forgotten and looked up again.
pub const STORE_TABLES_KNOWN_MAX: usize = 100_000;

/// The number of bits of one UTF-16 code unit divided by eight: what one unit costs in the size formula.
pub const UTF16_UNIT_BYTES: usize = 2;

const _: () = assert!(KEY_UTF16_UNITS_MAX * UTF16_UNIT_BYTES == 1024);
const _: () = assert!(STRING_UTF16_UNITS_MAX * UTF16_UNIT_BYTES == BINARY_BYTES_MAX);
const _: () = assert!(ENTITY_BYTES_MAX <= REQUEST_BODY_BYTES_MAX);
const _: () = assert!(ENTITY_BYTES_MAX <= PAGE_ENTITY_BYTES_MAX);
const _: () = assert!(CUSTOM_PROPERTIES_MAX < ATOM_PROPERTIES_MAX);
const _: () = assert!(XML_BODY_BYTES_MAX <= REQUEST_BODY_BYTES_MAX);
const _: () = assert!(QUERY_EXECUTION_SECONDS_DEFAULT < REQUEST_TIMEOUT_SECONDS_MAX);
const _: () = assert!(STORE_STATEMENT_SECONDS_MAX < STORE_ATTEMPT_SECONDS_MAX);
const _: () = assert!(STORE_ATTEMPTS_SECONDS_MAX + STORE_ATTEMPT_SECONDS_MAX < REQUEST_TIMEOUT_SECONDS_MAX);
const _: () = assert!(STORE_STATEMENT_SECONDS_MAX < STORE_IDLE_TRANSACTION_SECONDS_MAX);
