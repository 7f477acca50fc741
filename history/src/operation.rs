//! The operations of a history: who called what, when, and what the answer was.
//!
//! Invariants of a history, which the recorder maintains:
//!
//! 1. Every mutation that writes properties writes tokens that no other mutation of the history writes. A value that is
//!    read therefore shows which mutations wrote it.
//! 2. All times are read from one monotonic clock.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A time in nanoseconds since the clock of the history started.
pub type Time = u64;

/// The Timestamp of an entity, in units of 100 ns. An `ETag` is derived only from it.
pub type Stamp = u64;

/// An operation of a client on one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// The number of the operation, unique in its history.
    pub id: u64,
    /// The number of the client. A client has at most one operation in flight, except operations of unknown outcome.
    pub client: u32,
    /// The time before the request was sent.
    pub call: Time,
    /// The time after which the operation can have no further effect: the time of the answer or, if the outcome is
    /// unknown, a time by which the server that executed it was known to be down. `None` if there is no such time.
    #[serde(rename = "return", skip_serializing_if = "Option::is_none")]
    pub returned: Option<Time>,
    /// The table and partition key.
    pub partition: String,
    /// The request and its answer.
    #[serde(flatten)]
    pub action: Action,
}

impl Operation {
    /// Returns whether it is not known if the operation took effect.
    pub fn is_unknown(&self) -> bool {
        matches!(self.action, Action::Write { answer: Answer::Unknown, .. })
    }
}

/// A request and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// A read of one entity.
    Get {
        /// The row key.
        row: String,
        /// The entity, or `None` for 404.
        found: Option<Version>,
    },
    /// A page of a query: a read of all entities in a range of row keys.
    Page(Page),
    /// A mutation, or several in one transaction.
    Write {
        /// The mutations, of different entities.
        mutations: Vec<Mutation>,
        /// The answer.
        answer: Answer,
    },
}

/// A page of a query on one partition. A page across partitions is recorded as one page for each of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page {
    /// The first row key that the page covers: the start of the query, or the position in the continuation token.
    pub from: String,
    /// The first row key after the page: the position in the token for the next page, or the end of the query. `None`
    /// if the page covers the rest of the partition.
    pub until: Option<String>,
    /// The filter on the entities in the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// The entities, with their row keys.
    pub entities: Vec<(String, Version)>,
}

/// A filter that matches entities in which a property is at least a certain token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Filter {
    /// The property.
    pub property: Property,
    /// The smallest token that matches.
    pub at_least: u64,
}

impl Filter {
    /// Returns whether a value matches.
    pub fn matches(&self, value: &Value) -> bool {
        value.get(self.property).is_some_and(|token| token >= self.at_least)
    }
}

/// A state of an entity, as read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Version {
    /// The `ETag`, as its Timestamp.
    pub etag: Stamp,
    /// The custom properties.
    pub value: Value,
}

/// A change to one entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mutation {
    /// The row key.
    pub row: String,
    /// The kind of change.
    pub kind: Kind,
    /// The `ETag` that the entity must have. `None` stands for `*` in a replacement, a merge and a deletion; inserts
    /// and upserts have no condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_match: Option<Stamp>,
    /// The properties to write; empty for a deletion only.
    #[serde(skip_serializing_if = "Value::is_empty")]
    pub value: Value,
}

/// The kind of a mutation (02 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Creates an entity, which must not exist.
    Insert,
    /// Replaces an entity, which must exist.
    Replace,
    /// Sets some properties of an entity, which must exist.
    Merge,
    /// Creates or replaces an entity.
    InsertOrReplace,
    /// Creates an entity, or sets some of its properties.
    InsertOrMerge,
    /// Deletes an entity, which must exist.
    Delete,
}

impl Kind {
    /// Returns whether properties of the existing entity remain.
    pub fn merges(self) -> bool {
        matches!(self, Self::Merge | Self::InsertOrMerge)
    }

    /// Returns the reason for which a mutation with this kind and condition is refused by an entity with the given
    /// `ETag`, or by a missing one.
    pub fn refusal(self, if_match: Option<Stamp>, existing: Option<Stamp>) -> Option<Refusal> {
        match (self, existing) {
            (Self::InsertOrReplace | Self::InsertOrMerge, _) | (Self::Insert, None) => None,
            (Self::Insert, Some(_)) => Some(Refusal::Exists),
            (_, None) => Some(Refusal::NotFound),
            (_, Some(etag)) => if_match.is_some_and(|required| required != etag).then_some(Refusal::ConditionNotMet),
        }
    }
}

/// The answer to a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The write took effect. Contains the new `ETag` for each mutation, and `None` for a deletion.
    Done(Vec<Option<Stamp>>),
    /// Nothing changed, because the mutation at the index was refused. The mutations before it were acceptable.
    Refused {
        /// The index of the refused mutation.
        index: usize,
        /// The reason.
        reason: Refusal,
    },
    /// There was no answer, or one that does not say what happened. The write took effect once, or never.
    Unknown,
}

/// The reason for which a mutation was refused. Each is an observation of the entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// 409: the entity exists.
    Exists,
    /// 404: the entity does not exist.
    NotFound,
    /// 412: the entity exists, with a different `ETag`.
    ConditionNotMet,
}

/// A property, named by a lower-case letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Property(char);

impl Property {
    /// The properties that the workloads use.
    pub const USUAL: [Self; 3] = [Self('a'), Self('b'), Self('c')];

    /// Returns the property with a name, or `None` if the name is not a lower-case letter.
    pub fn new(name: &str) -> Option<Self> {
        match name.as_bytes() {
            [letter @ b'a'..=b'z'] => Some(Self(char::from(*letter))),
            _ => None,
        }
    }

    /// Returns the name.
    pub fn name(self) -> char {
        self.0
    }
}

/// The custom properties of an entity, each with the token of the mutation that wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Value(BTreeMap<Property, u64>);

impl Value {
    /// Returns whether there are no properties.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the properties, sorted.
    pub fn properties(&self) -> impl Iterator<Item = (Property, u64)> {
        self.0.iter().map(|(property, token)| (*property, *token))
    }

    /// Returns the token of a property.
    pub fn get(&self, property: Property) -> Option<u64> {
        self.0.get(&property).copied()
    }

    /// Returns the token of the first property. A mutation writes the same token to all its properties.
    pub fn get_token(&self) -> Option<u64> {
        self.0.values().next().copied()
    }

    /// Sets a property.
    pub fn set(&mut self, property: Property, token: u64) {
        self.0.insert(property, token);
    }

    /// Returns the value after a merge of other properties.
    pub fn merged(&self, other: &Self) -> Self {
        self.properties().chain(other.properties()).collect()
    }
}

impl FromIterator<(Property, u64)> for Value {
    fn from_iter<I: IntoIterator<Item = (Property, u64)>>(properties: I) -> Self {
        Self(properties.into_iter().collect())
    }
}

/// Writes a history to a file: one operation in JSON on each line.
pub fn write_history(path: &Path, history: &[Operation]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for operation in history {
        serde_json::to_writer(&mut file, operation)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}
