//! A client library for Azure Tables: the cloud's Table service, its emulator, and Rowhouse.
//!
//! [`TableService`] is the client of one account. A [`Table`] of it reads and writes entities: those of a program's own types,
//! with `#[derive(`[`Entity`](derive@Entity)`)]`, and [`PropertyBag`]s, which have no type. A [`Query`] is checked by the
//! compiler and gives a stream, a [`Transaction`] is atomic, a [`BulkWriter`] loads very many entities.
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
//! | `chrono`, `jiff`, `time`, `uuid` | the types of these crates as types of properties and keys |
//! | `json` | fields of any serde type, as one string of JSON |
//! | `serde` | continuations that can be serialized |
//! | `encryption` | encryption of properties in the client |
//! | `azure_core` | every credential of the `azure_core` crate as a source of tokens |
//!
//! Invariants:
//!
//! 1. An operation that may have been executed is repeated only if that does no harm; the number of attempts and the pauses
//!    between them are bounded by a [`RetryPolicy`].
//! 2. A response never takes more memory than its limit in [`limits`].
//! 3. Keys, signatures and tokens appear in no error, no span and no `Debug` output.
//! 4. Dropping a future gives the operation up.
//!
//! This crate must not know storage, configuration or the command line.

mod account;
#[cfg(feature = "encryption")]
pub mod encryption;
pub mod entity;
mod error;
pub mod filter;
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
pub use model::clock::{Clock, SystemClock};
pub use model::cors::{CorsRule, CorsRules};
pub use model::service_properties::{Logging, Metrics, MetricsLevel, RetentionDays};
pub use model::{Permissions, ServiceProperties, StoredAccessPolicies, StoredAccessPolicy};
pub use operations::{
    AccountSas, BulkFailure, BulkReport, BulkWriter, Continuation, IfMatch, MalformedContinuation, Page, Pages, Query,
    Results, Stored, Table, TableList, TableSas, TableService, TableServiceBuilder, Transaction, Written,
};
pub use pipeline::{Failure, ReadFrom, RetryPolicy, Transport};
pub use wire::service_stats::GeoReplication;

/// A future in a box, as the traits of this crate return it.
///
/// ```
/// use rowhouse_client::BoxFuture;
///
/// fn seven() -> BoxFuture<'static, u8> {
///     Box::pin(async { 7 })
/// }
/// # let _ = seven();
/// ```
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
