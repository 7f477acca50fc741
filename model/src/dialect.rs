//! The dialect of the protocol: the service whose rules hold, and whose answers a client gets (11).
//!
//! A dialect differs in a few rules and in the bytes of responses. Tables and entities are the same data in both.
//!
//! This module must not depend on how a dialect is chosen.

use crate::entity_limits::EntityLimits;
use crate::limits::{
    COSMOS_BATCH_BYTES_MAX, COSMOS_TRANSACTION_OPERATIONS_MAX, REQUEST_BODY_BYTES_MAX, TRANSACTION_OPERATIONS_MAX,
};

/// The service that a server answers like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Azure Table Storage.
    #[default]
    Storage,
    /// Azure Cosmos DB for Table (11).
    Cosmos,
}

impl Dialect {
    /// Returns whether queries return entities in descending order of keys. The service of such a dialect has another
    /// order than that of keys (11 §8), so a program that relies on ascending keys must fail its tests.
    pub fn has_descending_keys(self) -> bool {
        self == Self::Cosmos
    }

    /// Returns the limits on the entities that requests store (01 §4, §5; 11 §6).
    pub fn entity_limits(self) -> &'static EntityLimits {
        match self {
            Self::Storage => &EntityLimits::STORAGE,
            Self::Cosmos => &EntityLimits::COSMOS,
        }
    }

    /// Returns the maximum number of operations in an entity group transaction (05 §1; 11 §9).
    pub fn operations_max(self) -> usize {
        match self {
            Self::Storage => TRANSACTION_OPERATIONS_MAX,
            Self::Cosmos => COSMOS_TRANSACTION_OPERATIONS_MAX,
        }
    }

    /// Returns the maximum size of the body of a batch, in bytes (05 §1; 11 §9).
    pub fn batch_bytes_max(self) -> usize {
        match self {
            Self::Storage => REQUEST_BODY_BYTES_MAX,
            Self::Cosmos => COSMOS_BATCH_BYTES_MAX,
        }
    }
}
