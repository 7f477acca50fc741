//! What a snapshot of everything holds, whatever engine it comes from, and the bytes that stand for parts of it.
//!
//! A backup is made of these: tables by name, never by the numbers that an engine gives them.

use crate::engine::{Fault, TableKey};
use crate::{policies_value, properties_value};
use model::{AccountName, DateTime, ServiceProperties, StoredAccessPolicies};
use std::fmt;
use std::io;

/// Everything but the entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotContents {
    /// No Timestamp in the snapshot is later, and none that is given out after it may be earlier.
    pub last_stamp: DateTime,
    /// The accounts that have set service properties.
    pub properties: Vec<(AccountName, ServiceProperties)>,
    /// All tables.
    pub tables: Vec<SnapshotTable>,
}

/// A table without its entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotTable {
    /// Its account and its name as it was spelled at creation.
    pub table: TableKey,
    /// When it was created.
    pub created: DateTime,
    /// Its stored access policies.
    pub policies: StoredAccessPolicies,
}

/// Why the entities of a snapshot were not read to the end.
#[derive(Debug)]
pub enum SnapshotError {
    /// The engine failed, or is closing.
    Fault(Fault),
    /// Whoever takes the entities did not want more.
    Sink(io::Error),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::Sink(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// The bytes that stand for stored access policies; `docs/backup-format.md` has them.
pub fn encode_policies(policies: &StoredAccessPolicies) -> Vec<u8> {
    let mut out = Vec::new();
    policies_value::encode_to(policies, &mut out);
    out
}

/// The policies that bytes stand for; `None` if they are damaged.
pub fn decode_policies(mut bytes: &[u8]) -> Option<StoredAccessPolicies> {
    policies_value::decode_from(&mut bytes).filter(|_| bytes.is_empty())
}

/// The bytes that stand for service properties; `docs/backup-format.md` has them.
pub fn encode_properties(properties: &ServiceProperties) -> Vec<u8> {
    properties_value::encode(properties)
}

/// The service properties that bytes stand for; `None` if they are damaged or of a newer version.
pub fn decode_properties(bytes: &[u8]) -> Option<ServiceProperties> {
    properties_value::decode(bytes)
}
