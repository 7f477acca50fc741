//! The differences between databases that support the PostgreSQL protocol, as far as they affect this engine.

use crate::StoreError;
use tokio_postgres::Client;

/// The kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL without Citus.
    PostgreSql,
    /// PostgreSQL with the Citus extension, which can distribute tables over other servers.
    Citus,
    /// `YugabyteDB`.
    YugabyteDb,
}

impl Dialect {
    /// Asks a database for its kind.
    pub async fn detect(client: &Client, place: &str) -> Result<Self, StoreError> {
        let failed = |error| StoreError::from_postgres(place, &error);
        let row = client.query_one("SELECT version()", &[]).await.map_err(failed)?;
        let version: String = row.try_get(0).map_err(failed)?;
        let dialect = Self::named(&version);
        if dialect != Self::PostgreSql {
            return Ok(dialect);
        }
        let citus = client.query_opt("SELECT 1 FROM pg_extension WHERE extname = 'citus'", &[]).await;
        Ok(if citus.map_err(failed)?.is_some() { Self::Citus } else { dialect })
    }

    fn named(version: &str) -> Self {
        if version.contains("-YB-") { Self::YugabyteDb } else { Self::PostgreSql }
    }

    /// Returns whether PostgreSQL's planner settings exist and are suitable. Citus finds the shards of a statement by
    /// its values, so it must not use a generic plan. Moreover, its workers do not receive the settings.
    pub(crate) fn has_planner_settings(self) -> bool {
        self == Self::PostgreSql
    }

    /// Returns the declaration of a primary key column whose order must match the order of scans. By default,
    /// `YugabyteDB` would distribute the first column by its hash.
    pub(crate) fn ascending(self) -> &'static str {
        if self == Self::YugabyteDb { " ASC" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_known_by_their_version() {
        for (version, dialect) in [
            ("PostgreSQL 15.8 (Debian 15.8-0+deb12u1) on x86_64-pc-linux-gnu", Dialect::PostgreSql),
            ("PostgreSQL 15.2-YB-2.25.1.0-b0 on x86_64-pc-linux-gnu", Dialect::YugabyteDb),
        ] {
            assert_eq!(Dialect::named(version), dialect, "{version}");
        }
    }
}
