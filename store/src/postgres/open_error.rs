//! Why an engine on a PostgreSQL database was not opened: what is wrong, where, and what to do about it.
//!
//! No text holds a password: an address is named by its hosts, ports and database only.

use super::attempt::describe;
use super::leases::NoSlot;
use std::fmt;
use std::path::{Path, PathBuf};
use tokio_postgres::error::SqlState;

/// Why the database was not opened.
#[derive(Debug)]
pub enum StoreError {
    /// The address is malformed.
    Address {
        /// What is wrong with it.
        what: String,
    },
    /// A file that the address names cannot be used.
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// No server answers.
    Unreachable {
        /// Hosts, ports and database.
        place: String,
        /// The reason.
        what: String,
    },
    /// The database answers, and TLS with it failed.
    Tls {
        /// Hosts, ports and database.
        place: String,
        /// The reason.
        what: String,
    },
    /// The database refuses this user.
    LoginRefused {
        /// Hosts, ports and database.
        place: String,
        /// The reason of the database.
        what: String,
    },
    /// There is no database of this name.
    NoDatabase {
        /// Hosts, ports and database.
        place: String,
    },
    /// The schema is of a later version of Rowhouse.
    NewerSchema {
        /// Hosts, ports and database.
        place: String,
        /// The version of the schema.
        found: i64,
        /// The latest version of the schema that this code knows.
        known: i64,
    },
    /// The option to distribute tables was given, and the database is not Citus.
    NotCitus {
        /// Hosts, ports and database.
        place: String,
    },
    /// As many servers use the database as can.
    NoSlot {
        /// Hosts, ports and database.
        place: String,
    },
    /// The node knows no other one, and the address names several.
    NoWorkers {
        /// Hosts, ports and database.
        place: String,
    },
    /// The node is a worker of Citus, and the tables are not distributed.
    Worker {
        /// Hosts, ports and database.
        place: String,
    },
    /// The tables must be created or upgraded, and the coordinator of Citus, which alone can do that, is not known.
    NoCoordinator {
        /// Hosts, ports and database.
        place: String,
    },
    /// A statement failed while the schema was read or created.
    Statement {
        /// Hosts, ports and database.
        place: String,
        /// The reason of the database.
        what: String,
    },
}

impl StoreError {
    pub(super) fn address(what: impl Into<String>) -> Self {
        Self::Address { what: what.into() }
    }

    pub(super) fn file(path: &Path, what: impl fmt::Display) -> Self {
        Self::File { path: path.to_owned(), what: what.to_string() }
    }

    /// The error for a connection that was not made, or a statement of the opening that failed.
    pub(super) fn of(place: &str, error: &tokio_postgres::Error) -> Self {
        let (place, what) = (place.to_owned(), describe(error));
        match error.code() {
            Some(&(SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION)) => {
                Self::LoginRefused { place, what }
            }
            Some(&SqlState::INVALID_CATALOG_NAME) => Self::NoDatabase { place },
            Some(&(SqlState::CANNOT_CONNECT_NOW | SqlState::TOO_MANY_CONNECTIONS)) => Self::Unreachable { place, what },
            Some(_) => Self::Statement { place, what },
            None if what.contains("TLS") => Self::Tls { place, what },
            // The library has no error code for a password that was required and not given.
            None if what.contains("password") => Self::LoginRefused { place, what },
            None => Self::Unreachable { place, what },
        }
    }

    /// Whether the database may still be starting, or its nodes being added.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NoWorkers { .. })
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { what } => write!(
                f,
                "the address of the database cannot be used: {what}; it looks like postgres://USER@HOST:5432/DATABASE"
            ),
            Self::File { path, what } => write!(f, "{}: {what}", path.display()),
            Self::Unreachable { place, what } => write!(
                f,
                "cannot connect to the database {place}: {what}; check that PostgreSQL runs there, that host and port \
                 are right, and that no firewall is between"
            ),
            Self::Tls { place, what } => write!(
                f,
                "there is no TLS with the database {place} as the address asks for it: {what}; check that the database \
                 has ssl = on, that sslrootcert names the authority of its certificate, and that with verify-full the \
                 certificate is for this host"
            ),
            Self::LoginRefused { place, what } => write!(
                f,
                "the database {place} refuses this user: {what}; check the user in the address, and the \
                 password in --store-password-file, in PGPASSWORD or in ROWHOUSE_STORE"
            ),
            Self::NoDatabase { place } => {
                write!(f, "there is no database {place}; create it, for instance with createdb")
            }
            Self::NewerSchema { place, found, known } => write!(
                f,
                "the database {place} has schema {found}, and this version of Rowhouse knows up to schema {known}; \
                 nothing was changed; use the newer version of Rowhouse that upgraded the schema"
            ),
            Self::NotCitus { place } => write!(
                f,
                "--distribute was given, and the database {place} has no Citus; install it and run CREATE EXTENSION \
                 citus in the database, or omit --distribute: PostgreSQL and YugabyteDB do not need it"
            ),
            Self::NoSlot { place } => write!(f, "the database {place} takes no further server: {NoSlot}"),
            Self::NoWorkers { place } => write!(
                f,
                "a node of the database {place} knows no workers, so that the tables cannot be distributed over them; run \
                 SELECT citus_add_node('HOST', PORT) on the coordinator for each worker first"
            ),
            Self::Worker { place } => write!(
                f,
                "the address leads to a worker of Citus, {place}, which has no tables of Rowhouse; add --distribute, so that \
                 the tables are distributed over the nodes, or give the address of the coordinator"
            ),
            Self::NoCoordinator { place } => write!(
                f,
                "the tables in the database {place} must be created or upgraded, and its nodes do not know the coordinator of \
                 Citus; run SELECT citus_set_coordinator_host('HOST', PORT) on it"
            ),
            Self::Statement { place, what } => write!(
                f,
                "the schema in the database {place} could not be read or created: {what}; the first start needs the right \
                 to create tables"
            ),
        }
    }
}

impl std::error::Error for StoreError {}
