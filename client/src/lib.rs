//! A client library for Azure Tables: the cloud's Table service, its emulator, and Rowhouse.
//!
//! [`TableService`] is the client of one account. A [`Table`] reads and writes entities: either types that you define
//! with `#[derive(`[`Entity`](derive@Entity)`)]`, or untyped [`PropertyBag`]s. A [`Query`] is checked by the compiler
//! and returns a stream, a [`Transaction`] is atomic, and a [`BulkWriter`] loads large numbers of entities.
//!
//! ```
//! use rowhouse_client::{Entity, TableService};
//!
//! #[derive(Entity, Debug, PartialEq)]
//! struct Customer {
//!     #[entity(partition_key)]
//!     city: String,
//!     #[entity(row_key)]
//!     id: String,
//!     name: String,
//!     visits: i64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowhouse_testing::TestServer::start().await?;
//! # let connection_string = server.connection_string();
//! let customers = TableService::from_connection_string(&connection_string)?.table("customers");
//! customers.create_if_missing().await?;
//! customers.insert(&Customer { city: "Turin".into(), id: "7".into(), name: "Ada".into(), visits: 9 }).await?;
//!
//! let mut regulars = customers.query::<Customer>().partition("Turin").filter(|c| c.visits.gt(5)).stream();
//! while let Some(customer) = regulars.next().await {
//!     println!("{}", customer?.name);
//! }
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `chrono`, `jiff`, `time`, `uuid` | types of these crates for properties and keys |
//! | `json` | fields of any serde type, stored as one JSON string |
//! | `serde` | serializable continuations |
//! | `encryption` | client-side encryption of properties |
//! | `azure_core` | every credential of the `azure_core` crate as a token source |
//!
//! Invariants:
//!
//! 1. An operation that may have been executed is retried only if executing it twice does no harm. A [`RetryPolicy`]
//!    bounds the number of attempts and the pauses between them.
//! 2. A response never takes more memory than its limit in [`limits`].
//! 3. Errors, spans and `Debug` output never contain keys, signatures or tokens.
//! 4. Dropping a future abandons the operation.
//!
//! This crate must not depend on storage, configuration or the command line.

mod account;
#[cfg(feature = "encryption")]
pub mod encryption;
pub mod entity;
mod error;
pub mod filter;
mod future;
pub mod http;
pub mod limits;
mod operations;
mod pipeline;

#[cfg(feature = "azure_core")]
pub use account::AzureCredential;
pub use account::{
    AccessToken, ConnectionString, Credential, DEVELOPMENT_ACCOUNT, DEVELOPMENT_ENDPOINT, DEVELOPMENT_KEY, Endpoint,
    EndpointError, SharedKey, TokenCredential, TokenError,
};
pub use entity::{
    DateTime, ETag, EdmType, EdmValue, Entity, EntityError, EntityKey, Guid, Properties, PropertyBag, PropertyValue,
};
pub use error::{Error, ErrorKind, Refusal};
pub use filter::{Filter, Projection};
pub use http::HttpError;
pub use operations::{
    AccountSas, BulkFailure, BulkReport, BulkWriter, Change, ChangeOperation, ChangeStream, Changes, Continuation,
    IfMatch, MalformedContinuation, Page, Pages, Query, Results, Scan, ScanResults, Stored, Table, TableList, TableSas,
    TableService, TableServiceBuilder, Transaction, Written,
};
pub use pipeline::{Failure, ReadFrom, RetryPolicy, Transport};

/// The examples in the documentation of the derive macro.
#[cfg(doctest)]
#[doc = include_str!("../derive/reference.md")]
mod derive_reference {}

/// Hidden: used by the commands of the workspace.
#[doc(hidden)]
pub mod key_ranges {
    pub use crate::operations::{EntityRange, KeyPage, KeyReader, split};
}

#[doc(hidden)]
pub use operations::JsonChange;

/// The position of a change in the change feed, an extension of Rowhouse ([`Table::changes`]).
///
/// ```
/// use rowhouse_client::ChangePosition;
///
/// let position = ChangePosition::parse("00000000000000004711-002").ok_or("not a position")?;
/// assert_eq!((position.transaction, position.index), (4711, 2));
/// assert_eq!(position.to_string(), "00000000000000004711-002");
/// # Ok::<(), &str>(())
/// ```
#[doc(inline)]
pub use model::ChangePosition;
/// The operations that a shared access signature or a stored access policy permits.
///
/// ```
/// use rowhouse_client::Permissions;
///
/// let permissions = Permissions::READ.union(Permissions::ADD);
/// assert!(Permissions::ENTITIES.contains(permissions));
/// assert_eq!(permissions.to_string(), "ra");
/// ```
#[doc(inline)]
pub use model::Permissions;
/// How long the entities of a table exist, an extension of Rowhouse ([`Table::set_retention`]).
///
/// ```
/// use rowhouse_client::Retention;
///
/// assert_eq!(Retention::by_age(3600).map(|retention| retention.seconds()), Some(3600));
/// assert!(Retention::by_age(0).is_none());
/// ```
pub use model::Retention;
/// The service properties of an account: CORS rules, logging and metrics.
///
/// ```
/// use rowhouse_client::ServiceProperties;
///
/// let mut properties = ServiceProperties::default();
/// properties.logging.delete = true;
/// assert!(properties.cors.is_empty());
/// ```
#[doc(inline)]
pub use model::ServiceProperties;
/// The stored access policies of a table: at most five, with distinct IDs.
///
/// ```
/// use rowhouse_client::{StoredAccessPolicies, StoredAccessPolicy};
///
/// let readers = StoredAccessPolicy::new("readers").ok_or("the id is too long")?;
/// assert!(StoredAccessPolicies::new(vec![readers.clone(), readers.clone()]).is_none());
/// let policies = StoredAccessPolicies::new(vec![readers]).ok_or("too many policies")?;
/// assert!(policies.get("readers").is_some());
/// # Ok::<(), &str>(())
/// ```
#[doc(inline)]
pub use model::StoredAccessPolicies;
/// A stored access policy. Changing the policy changes the signatures that refer to it; deleting the policy revokes
/// them.
///
/// ```
/// use rowhouse_client::{DateTime, Permissions, StoredAccessPolicy};
///
/// let mut readers = StoredAccessPolicy::new("readers").ok_or("the id is too long")?;
/// readers.permissions = Some(Permissions::READ);
/// readers.expiry = Some(DateTime::MAX);
/// # Ok::<(), &str>(())
/// ```
#[doc(inline)]
pub use model::StoredAccessPolicy;
/// A source of the current time, for the dates of requests and the expiry of tokens.
///
/// ```
/// use rowhouse_client::{Clock, DateTime, TableService};
///
/// #[derive(Debug)]
/// struct Fixed(DateTime);
///
/// impl Clock for Fixed {
///     fn now(&self) -> DateTime {
///         self.0
///     }
/// }
///
/// let service = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?.clock(Fixed(DateTime::MIN)).build()?;
/// # Ok::<(), rowhouse_client::Error>(())
/// ```
#[doc(inline)]
pub use model::clock::Clock;
/// The operating system's clock, which is the default of a [`TableService`].
///
/// ```
/// use rowhouse_client::{Clock, DateTime, SystemClock};
///
/// assert!(SystemClock.now() > DateTime::MIN);
/// ```
#[doc(inline)]
pub use model::clock::SystemClock;
/// A rule that lets scripts from other origins use the account's tables.
///
/// ```
/// use rowhouse_client::CorsRule;
///
/// // Allowed origins, methods, request headers, exposed response headers, and the preflight cache time in seconds.
/// let rule = CorsRule::new("https://shop.example.net", "GET,PUT", "x-ms-*", "etag", 600);
/// assert!(rule.is_ok_and(|rule| rule.max_age_seconds() == 600));
/// ```
#[doc(inline)]
pub use model::cors::CorsRule;
/// The CORS rules of an account: at most five. The first rule that matches the origin and the method applies.
///
/// ```
/// use rowhouse_client::{CorsRule, CorsRules};
///
/// let rule = CorsRule::new("*", "GET", "", "", 0);
/// let rules = rule.and_then(|rule| CorsRules::new(vec![rule]));
/// assert!(rules.is_ok_and(|rules| rules.as_slice().len() == 1));
/// ```
#[doc(inline)]
pub use model::cors::CorsRules;
/// The settings for logging requests in the account's analytics.
///
/// ```
/// use rowhouse_client::{Logging, RetentionDays};
///
/// let logging = Logging { delete: true, retention: RetentionDays::new(7), ..Logging::default() };
/// assert!(!logging.read);
/// ```
#[doc(inline)]
pub use model::service_properties::Logging;
/// The settings for counting requests in the account's analytics.
///
/// ```
/// use rowhouse_client::{Metrics, MetricsLevel, RetentionDays};
///
/// let metrics = Metrics { level: MetricsLevel::Service, retention: RetentionDays::new(7) };
/// assert_ne!(metrics, Metrics::default());
/// ```
#[doc(inline)]
pub use model::service_properties::Metrics;
/// The level of detail of the account's metrics.
///
/// ```
/// use rowhouse_client::{Metrics, MetricsLevel};
///
/// assert_eq!(Metrics::default().level, MetricsLevel::Off);
/// ```
#[doc(inline)]
pub use model::service_properties::MetricsLevel;
/// The number of days for which analytics data is kept: 1 to 365.
///
/// ```
/// use rowhouse_client::RetentionDays;
///
/// assert_eq!(RetentionDays::new(7).map(RetentionDays::get), Some(7));
/// assert_eq!(RetentionDays::new(0), None);
/// ```
#[doc(inline)]
pub use model::service_properties::RetentionDays;
/// The state of replication to the secondary.
///
/// ```
/// use rowhouse_client::GeoReplication;
/// use std::time::SystemTime;
///
/// fn is_up_to_date(replication: GeoReplication, written: SystemTime) -> bool {
///     matches!(replication, GeoReplication::Live(until) if written < until)
/// }
/// assert!(!is_up_to_date(GeoReplication::Bootstrap, SystemTime::now()));
/// ```
#[doc(inline)]
pub use wire::service_stats::GeoReplication;

/// The name of a property that can have an index, an extension of Rowhouse: any custom property.
///
/// ```
/// use rowhouse_client::IndexedProperty;
///
/// assert_eq!(IndexedProperty::new("Total").map(|property| property.to_string()).as_deref(), Some("Total"));
/// assert!(IndexedProperty::new("RowKey").is_none());
/// ```
#[doc(inline)]
pub use model::IndexedProperty;
/// An index of a table, an extension of Rowhouse ([`Table::indexes`]).
///
/// ```
/// use rowhouse_client::TableIndex;
///
/// fn is_built(indexes: &[TableIndex], property: &str) -> bool {
///     indexes.iter().any(|index| index.property.as_str() == property && index.is_ready)
/// }
/// assert!(!is_built(&[], "Total"));
/// ```
#[doc(inline)]
pub use wire::table_indexes::TableIndex;

pub use future::BoxFuture;
