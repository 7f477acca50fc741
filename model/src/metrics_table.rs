//! The tables of Storage Analytics. Their names are reserved (10 §8).
//!
//! This module must not depend on what the tables contain.

/// A table that the service itself fills with metrics about requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetricsTable {
    /// Hourly metrics of requests to the primary endpoint.
    HourPrimary,
    /// Per-minute metrics of requests to the primary endpoint.
    MinutePrimary,
    /// Hourly metrics of requests to the secondary endpoint.
    HourSecondary,
    /// Per-minute metrics of requests to the secondary endpoint.
    MinuteSecondary,
}

const PREFIX: &str = "$Metrics";
/// The name of the hourly table in versions before 2013-08-15.
const OLD_NAME: &str = "$MetricsTransactionsTable";

impl MetricsTable {
    /// All metrics tables.
    pub const ALL: [Self; 4] = [Self::HourPrimary, Self::MinutePrimary, Self::HourSecondary, Self::MinuteSecondary];

    /// Returns whether a name is reserved for metrics tables, including those of other services.
    pub fn is_reserved(name: &str) -> bool {
        name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
    }

    /// Returns the table with the given name. Letter case is ignored. One of the tables has two names.
    pub fn from_name(name: &str) -> Option<Self> {
        if !name.starts_with('$') {
            return None;
        }
        let by_name = Self::ALL.into_iter().find(|table| table.name().eq_ignore_ascii_case(name));
        by_name.or_else(|| name.eq_ignore_ascii_case(OLD_NAME).then_some(Self::HourPrimary))
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::HourPrimary => "$MetricsHourPrimaryTransactionsTable",
            Self::MinutePrimary => "$MetricsMinutePrimaryTransactionsTable",
            Self::HourSecondary => "$MetricsHourSecondaryTransactionsTable",
            Self::MinuteSecondary => "$MetricsMinuteSecondaryTransactionsTable",
        }
    }

    /// Returns whether the table is about the secondary endpoint.
    pub fn is_secondary(self) -> bool {
        matches!(self, Self::HourSecondary | Self::MinuteSecondary)
    }

    /// Returns whether the table contains hourly metrics.
    pub fn is_hourly(self) -> bool {
        matches!(self, Self::HourPrimary | Self::HourSecondary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for table in MetricsTable::ALL {
            assert_eq!(MetricsTable::from_name(table.name()), Some(table));
            assert_eq!(MetricsTable::from_name(&table.name().to_lowercase()), Some(table));
        }
        assert_eq!(MetricsTable::from_name("$MetricsTransactionsTable"), Some(MetricsTable::HourPrimary));
        for other in ["", "$", "harvest", "$MetricsCapacityBlob", "$MetricsHourPrimaryTransactionsBlob"] {
            assert_eq!(MetricsTable::from_name(other), None, "{other}");
        }
    }
}
