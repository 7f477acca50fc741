//! Atom entries and feeds, which the Table service supported before version 2015-12-11 (specification 03 §5).
//!
//! This module must not depend on which requests use Atom.

mod read;
mod value;
mod write;

pub(crate) use read::defect;
pub use read::{read_entity, read_table};
pub use write::{
    end_feed, write_entity_in_feed, write_single_entity, write_single_table, write_start_of_entity_feed,
    write_table_feed,
};

const ATOM: &str = "http://www.w3.org/2005/Atom";
/// The namespace of properties, with the conventional prefix `d`.
const DATA: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices";
/// The namespace of metadata about properties, with the conventional prefix `m`.
const METADATA: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";
const SCHEME: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/scheme";
