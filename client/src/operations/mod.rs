//! The public operations: services, tables, queries, transactions and the bulk writer.
//!
//! This folder must not know how requests are signed, sent and retried.

mod bulk;
mod change_stream;
mod changes;
mod continuation;
mod entities;
mod matching;
mod pages;
mod query;
mod ranges;
mod sas;
mod scan;
mod service;
mod stored;
mod table;
mod transaction;

pub use bulk::{BulkFailure, BulkReport, BulkWriter};
pub use change_stream::ChangeStream;
pub use changes::{Change, ChangeOperation, Changes, JsonChange};
pub use continuation::{Continuation, MalformedContinuation};
pub use pages::{Page, Pages, Results};
pub use query::Query;
pub use ranges::{EntityRange, KeyPage, KeyReader, split};
pub use sas::{AccountSas, TableSas};
pub use scan::{Scan, ScanResults};
pub use service::{TableList, TableService, TableServiceBuilder};
pub use stored::{IfMatch, Stored, Written};
pub use table::Table;
pub use transaction::Transaction;
