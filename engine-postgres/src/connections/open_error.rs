//! The reasons why the PostgreSQL database of an engine cannot be opened.
//!
//! No message contains a password: a URL is shown only as its hosts, ports and database.

use crate::connections::attempt::describe;
use crate::slot::NoSlot;
use std::fmt;
use std::path::{Path, PathBuf};
use tokio_postgres::error::SqlState;

/// The reason why the database was not opened.
#[derive(Debug)]
pub enum StoreError {
    /// The URL is malformed.
    Address {
        /// The description of the problem.
        what: String,
    },
    /// A file named in the URL cannot be used.
    File {
        /// The file.
        path: PathBuf,
        /// The description of the problem.
        what: String,
    },
    /// No server responds.
    Unreachable {
        /// Hosts, ports and database.
        place: String,
        /// The reason.
        what: String,
    },
    /// The database responds, but the TLS handshake failed.
    Tls {
        /// Hosts, ports and database.
        place: String,
        /// The reason.
        what: String,
    },
    /// The database refuses the login.
    LoginRefused {
        /// Hosts, ports and database.
        place: String,
        /// The reason given by the database.
        what: String,
    },
    /// There is no database with the given name.
    NoDatabase {
        /// Hosts, ports and database.
        place: String,
    },
    /// The schema was created by a newer version of Rowhouse.
    NewerSchema {
        /// Hosts, ports and database.
        place: String,
        /// The version of the schema.
        found: i64,
        /// The latest schema version that this code supports.
        known: i64,
    },
    /// The option to distribute tables was given, but Citus is not installed in the database.
    NotCitus {
        /// Hosts, ports and database.
        place: String,
    },
    /// The maximum number of servers already use the database.
    NoSlot {
        /// Hosts, ports and database.
        place: String,
    },
    /// The URL contains several nodes, but no workers are registered on the contacted node.
    NoWorkers {
        /// Hosts, ports and database.
        place: String,
    },
    /// The node is a Citus worker, but the tables are not distributed.
    Worker {
        /// Hosts, ports and database.
        place: String,
    },
    /// The tables must be created or upgraded, but the Citus coordinator, the only node that can do so, is unknown.
    NoCoordinator {
        /// Hosts, ports and database.
        place: String,
    },
    /// A statement failed while the schema was being read or created.
    Statement {
        /// Hosts, ports and database.
        place: String,
        /// The reason given by the database.
        what: String,
    },
}

impl StoreError {
    pub(crate) fn address(what: impl Into<String>) -> Self {
        Self::Address { what: what.into() }
    }

    pub(crate) fn file(path: &Path, what: impl fmt::Display) -> Self {
        Self::File { path: path.to_owned(), what: what.to_string() }
    }

    pub(crate) fn from_postgres(place: &str, error: &tokio_postgres::Error) -> Self {
        let (place, what) = (place.to_owned(), describe(error));
        match error.code() {
            Some(&(SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION)) => {
                Self::LoginRefused { place, what }
            }
            Some(&SqlState::INVALID_CATALOG_NAME) => Self::NoDatabase { place },
            Some(&(SqlState::CANNOT_CONNECT_NOW | SqlState::TOO_MANY_CONNECTIONS)) => Self::Unreachable { place, what },
            Some(_) => Self::Statement { place, what },
            None if what.contains("TLS") => Self::Tls { place, what },
            // The library has no error code for a required password that was not given.
            None if what.contains("password") => Self::LoginRefused { place, what },
            None => Self::Unreachable { place, what },
        }
    }

    /// Returns whether retrying may help: the database may still be starting, or some of its nodes may not have been
    /// added yet.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NoWorkers { .. })
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { what } => {
                write!(f, "the database URL is not valid: {what}; its form is postgres://USER@HOST:5432/DATABASE")
            }
            Self::File { path, what } => write!(f, "{}: {what}", path.display()),
            Self::Unreachable { place, what } => write!(
                f,
                "cannot connect to the database {place}: {what}; check that PostgreSQL is running there, that the host and port \
                 are correct, and that no firewall blocks the connection"
            ),
            Self::Tls { place, what } => write!(
                f,
                "TLS to the database {place} failed: {what}; check that the database \
                 has ssl = on, that sslrootcert contains the authority of its certificate, and that with verify-full the \
                 certificate is valid for this host"
            ),
            Self::LoginRefused { place, what } => write!(
                f,
                "the database {place} refuses this user: {what}; check the user in the URL, and the \
                 password in --store-password-file, in PGPASSWORD or in ROWHOUSE_STORE"
            ),
            Self::NoDatabase { place } => {
                write!(f, "there is no database {place}; create it, for example with createdb")
            }
            Self::NewerSchema { place, found, known } => write!(
                f,
                "the database {place} has schema {found}, but this version of Rowhouse supports schemas up to {known}; \
                 nothing was changed; use the newer version of Rowhouse that upgraded the schema"
            ),
            Self::NotCitus { place } => write!(
                f,
                "--distribute was given, but Citus is not installed in the database {place}; install it and run \
                 CREATE EXTENSION citus in the database, or omit --distribute: PostgreSQL and YugabyteDB do not need it"
            ),
            Self::NoSlot { place } => write!(f, "the database {place} accepts no more servers: {NoSlot}"),
            Self::NoWorkers { place } => write!(
                f,
                "the tables cannot be distributed, because a node of the database {place} has no workers registered; \
                 first run SELECT citus_add_node('HOST', PORT) on the coordinator for each worker"
            ),
            Self::Worker { place } => write!(
                f,
                "{place} is a Citus worker without Rowhouse tables; add --distribute, so that \
                 the tables are distributed over the nodes, or give the URL of the coordinator"
            ),
            Self::NoCoordinator { place } => write!(
                f,
                "the tables in the database {place} must be created or upgraded, but its nodes do not know the Citus \
                 coordinator; on the coordinator, run SELECT citus_set_coordinator_host('HOST', PORT)"
            ),
            Self::Statement { place, what } => write!(
                f,
                "the schema in the database {place} could not be read or created: {what}; the first start needs permission \
                 to create tables"
            ),
        }
    }
}

impl std::error::Error for StoreError {}
