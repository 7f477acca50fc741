//! What a filter requires of entities of which a part is already known.
//!
//! This module must not depend on which part is known.

use crate::entity::StoredEntity;
use crate::filter::{Filter, Matcher};
use crate::record::DamagedRecord;
use std::sync::Arc;

/// A condition. Many areas share one, so that its size does not multiply by their number.
#[derive(Debug, Clone)]
pub(super) enum Residual {
    /// No condition: every entity meets it.
    None,
    Filter(Arc<Matcher>),
    Both(Arc<(Residual, Residual)>),
}

impl From<Filter> for Residual {
    fn from(filter: Filter) -> Self {
        Self::Filter(Arc::new(Matcher::new(filter)))
    }
}

impl Residual {
    /// Returns the condition that all filters, at least one, evaluate to `wanted`.
    pub(super) fn all(filters: &[&Filter], wanted: bool) -> Self {
        let all = || filters.iter().copied().cloned().collect();
        Self::from(match filters {
            [filter] if wanted => (*filter).clone(),
            _ if wanted => Filter::And(all()),
            _ => Filter::Not(Box::new(Filter::Or(all()))),
        })
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::None, condition) | (condition, Self::None) => condition.clone(),
            (a, b) => Self::Both(Arc::new((a.clone(), b.clone()))),
        }
    }

    /// Returns true only if both are the same condition.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Filter(a), Self::Filter(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    pub(super) fn matches(&self, entity: &mut StoredEntity<'_>) -> Result<bool, DamagedRecord> {
        match self {
            Self::None => Ok(true),
            Self::Filter(filter) => filter.matches(entity),
            Self::Both(both) => Ok(both.0.matches(entity)? && both.1.matches(entity)?),
        }
    }
}
