//! The dialect of the protocol: the service whose rules hold, and whose answers a client gets (11).
//!
//! A dialect differs in a few rules and in the bytes of responses. Tables and entities are the same data in both.
//!
//! This module must not depend on how a dialect is chosen.

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
}
