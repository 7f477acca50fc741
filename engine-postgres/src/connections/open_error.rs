//! The reason why the PostgreSQL database of an engine cannot be opened.

use crate::connections::attempt::describe;
use std::fmt;
use std::path::Path;
use tokio_postgres::error::SqlState;

/// The reason why the database was not opened, and what to do about it.
///
/// No message contains a password: a URL is shown only as its hosts, ports and database, which are called the place.
#[derive(Debug)]
pub struct StoreError {
    message: String,
    /// Whether retrying may help: the database may still be starting, or some of its nodes may not have been added yet.
    pub(crate) is_transient: bool,
}

impl StoreError {
    /// `message` says what to do.
    pub fn new(message: String) -> Self {
        Self { message, is_transient: false }
    }

    pub(crate) fn transient(message: String) -> Self {
        Self { message, is_transient: true }
    }

    /// The URL is malformed.
    pub(crate) fn address(what: impl fmt::Display) -> Self {
        Self::new(format!("the database URL is not valid: {what}; its form is postgres://USER@HOST:5432/DATABASE"))
    }

    /// A file named in the URL cannot be used.
    pub(crate) fn file(path: &Path, what: impl fmt::Display) -> Self {
        Self::new(format!("{}: {what}", path.display()))
    }

    /// No server responds.
    pub(crate) fn unreachable(place: &str, what: &str) -> Self {
        Self::transient(format!(
            "cannot connect to the database {place}: {what}; check that PostgreSQL is running there, that the host and \
             port are correct, and that no firewall blocks the connection"
        ))
    }

    /// A statement failed while the schema was being read or created.
    pub(crate) fn statement(place: &str, what: impl fmt::Display) -> Self {
        Self::new(format!(
            "the schema in the database {place} could not be read or created: {what}; the first start needs \
             permission to create tables"
        ))
    }

    /// Returns the reason that an error of the client library means.
    pub fn from_postgres(place: &str, error: &tokio_postgres::Error) -> Self {
        let what = describe(error);
        let login_refused = || {
            Self::new(format!(
                "the database {place} refuses this user: {what}; check the user in the URL, and the password in \
                 --store-password-file, in PGPASSWORD or in ROWHOUSE_STORE"
            ))
        };
        match error.code() {
            Some(&(SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION)) => login_refused(),
            Some(&SqlState::INVALID_CATALOG_NAME) => {
                Self::new(format!("there is no database {place}; create it, for example with createdb"))
            }
            Some(&(SqlState::CANNOT_CONNECT_NOW | SqlState::TOO_MANY_CONNECTIONS)) => Self::unreachable(place, &what),
            Some(_) => Self::statement(place, what),
            None if what.contains("TLS") => Self::new(format!(
                "TLS to the database {place} failed: {what}; check that the database has ssl = on, that sslrootcert \
                 contains the authority of its certificate, and that with verify-full the certificate is valid for this \
                 host"
            )),
            // The library has no error code for a required password that was not given.
            None if what.contains("password") => login_refused(),
            None => Self::unreachable(place, &what),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}
