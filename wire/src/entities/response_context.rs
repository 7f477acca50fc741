//! The values on which the body of a response depends, in any format.

use crate::negotiation::{ContentKind, Format};
use crate::select::Select;
use crate::version::Version;
use model::{AccountName, DateTime, Dialect};

/// The values that all responses depend on.
#[derive(Debug, Clone, Copy)]
pub struct ResponseContext<'a> {
    /// Scheme, host and, in path style, the account: `http://127.0.0.1:10002/acct`.
    pub base: &'a str,
    /// The account.
    pub account: &'a AccountName,
    /// The service that the server answers like.
    pub dialect: Dialect,
    /// The format.
    pub format: Format,
    /// The service version.
    pub version: Version,
    /// The time of the response, which Atom includes.
    pub now: DateTime,
}

impl ResponseContext<'_> {
    /// Returns the `Content-Type` of the response.
    pub fn content_type(self, content: ContentKind) -> &'static str {
        self.format.content_type(content, self.version, self.dialect)
    }
}

/// The values that all entities of one table in a response depend on.
#[derive(Debug, Clone, Copy)]
pub struct EntityContext<'a> {
    /// The context of the response.
    pub response: ResponseContext<'a>,
    /// The table name as written in the request.
    pub table: &'a str,
    /// The properties to write; `None` writes all.
    pub select: Option<&'a Select>,
}
