//! Continuation tokens: the positions at which the next pages of queries begin.

use crate::error::Error;
use crate::pipeline::{Operation, Response, unreadable};
use std::fmt;
use std::str::FromStr;
use wire::uri::{encode_component, percent_decode};

/// The continuation token of a query. Its strings are opaque: only the service that created them can interpret them.
///
/// A token can be stored and used hours later by another process, either as a string or with the feature `serde`. It is
/// valid only for the table and the filter for which it was created.
///
/// ```
/// use rowhouse_client::{Continuation, PropertyBag};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
/// # let orders = service.table("orders");
/// # orders.create().await?;
/// # for number in 0..3 { orders.insert(&PropertyBag::new("2031", &number.to_string())?).await?; }
/// let mut pages = orders.query::<PropertyBag>().page_size(2).pages();
/// let first = pages.next().await.ok_or("no page")??;
/// let stored: String = first.next.ok_or("no more pages")?.to_string();
///
/// // Later, in another process:
/// let rest = orders.query::<PropertyBag>().resume(stored.parse::<Continuation>()?).collect().await?;
/// assert_eq!((first.items.len(), rest.len()), (2, 1));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Continuation {
    /// The value of `NextPartitionKey`.
    pub partition: String,
    /// The value of `NextRowKey`.
    pub row: Option<String>,
}

/// The error for a string that is not a continuation token.
///
/// ```
/// assert!("".parse::<rowhouse_client::Continuation>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedContinuation;

impl Continuation {
    /// Returns the query options that make a query begin here.
    pub(crate) fn options(&self) -> String {
        let row = self.row.as_ref().map_or_else(String::new, |row| format!("&NextRowKey={}", encode_component(row)));
        format!("&NextPartitionKey={}{row}", encode_component(&self.partition))
    }
}

/// Returns the token of the next page. Fails if the service repeats the token that was sent, because following it would
/// never end.
pub(super) fn advanced<T: PartialEq>(
    operation: &Operation,
    sent: Option<&T>,
    next: Option<T>,
) -> Result<Option<T>, Error> {
    if next.is_some() && next.as_ref() == sent {
        return Err(unreadable(operation, "the service repeats its continuation token, so the pages would never end"));
    }
    Ok(next)
}

/// Returns the position of the next page of entities, as the response to an operation that began at `sent` states it.
pub(super) fn next(
    operation: &Operation,
    sent: Option<&Continuation>,
    response: &Response,
) -> Result<Option<Continuation>, Error> {
    let partition = response.continuation(operation, "x-ms-continuation-NextPartitionKey")?;
    let row = response.continuation(operation, "x-ms-continuation-NextRowKey")?;
    advanced(operation, sent, partition.map(|partition| Continuation { partition, row }))
}

/// Writes both values percent-encoded with a slash between them. Omits the slash if there is no `NextRowKey`.
impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_component(&self.partition))?;
        self.row.as_ref().map_or(Ok(()), |row| write!(f, "/{}", encode_component(row)))
    }
}

impl FromStr for Continuation {
    type Err = MalformedContinuation;

    fn from_str(text: &str) -> Result<Self, MalformedContinuation> {
        let decode = |text| percent_decode(text).map(String::from).ok_or(MalformedContinuation);
        let (partition, row) = match text.split_once('/') {
            Some((partition, row)) => (partition, Some(decode(row)?)),
            None => (text, None),
        };
        if partition.is_empty() { Err(MalformedContinuation) } else { Ok(Self { partition: decode(partition)?, row }) }
    }
}

impl fmt::Display for MalformedContinuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the string is not the continuation of a query")
    }
}

impl std::error::Error for MalformedContinuation {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continuation_is_the_same_after_it_was_stored() {
        for (partition, row) in [("1!8!a/b", Some("1!4!%41")), ("x", None), ("x y", Some("")), ("\u{e9}/", None)] {
            let continuation = Continuation { partition: partition.to_owned(), row: row.map(str::to_owned) };
            assert_eq!(continuation.to_string().parse(), Ok(continuation));
        }
        assert_eq!("%FF".parse::<Continuation>(), Err(MalformedContinuation));
    }
}
