//! The data model of the Table service, without any input or output.
//!
//! This crate must not depend on sockets, files, threads, async, HTTP, JSON or XML. Because it does no I/O, every error
//! here is about the caller's data.

mod access;
pub mod changes_table;
pub mod clock;
pub mod control_characters;
pub mod datetime;
mod dialect;
mod entities;
mod entity_limits;
mod keys;
pub mod limits;
pub mod metrics_table;
pub mod name;
pub mod ordered_view;
mod queries;
mod service;

pub use access::{grant, permissions, policy, roles};
pub use entities::{computed_record, edm, entity, etag, mutation, record, repeated, retention, transaction};
pub use keys::{key, prefix, range};
pub use queries::{filter, index, plan};
pub use service::{cors, service_properties, table_settings};

pub use changes_table::{ChangePosition, ChangesTable};
pub use clock::Clock;
pub use computed_record::ComputedRecord;
pub use cors::{CorsRule, CorsRules};
pub use datetime::DateTime;
pub use dialect::Dialect;
pub use edm::{EdmType, EdmValue, Guid};
pub use entity::{Entity, EntityView, StoredEntity};
pub use entity_limits::EntityLimits;
pub use etag::{Condition, ETag};
pub use filter::{Filter, Matcher};
pub use grant::{Action, Denial, Grant, Scope};
pub use index::IndexedProperty;
pub use key::{EntityKey, KeyText};
pub use metrics_table::MetricsTable;
pub use mutation::{Mutation, MutationError, MutationResult};
pub use name::{AccountName, TableName};
pub use ordered_view::OrderedView;
pub use permissions::Permissions;
pub use policy::{StoredAccessPolicies, StoredAccessPolicy};
pub use range::{KeyRange, Position};
pub use record::{Record, RecordBuilder, RecordView};
pub use retention::{Expiry, Retention, Visibility};
pub use service_properties::{ServiceProperties, ServicePropertiesUpdate};
pub use table_settings::{TableSettings, TableSettingsUpdate};
pub use transaction::Transaction;
