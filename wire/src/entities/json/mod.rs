//! JSON of the Table service: OData version 3 at three metadata levels (specification 03 §2, §3).
//!
//! Invariant: bodies are parsed only by `serde_json`.
//!
//! This module must not depend on which requests use JSON.

mod changes;
mod encoder_cache;
mod line;
mod members;
mod read;
mod request;
mod sets;
mod write;

pub use crate::encoding::json_string::write_json_string;
pub use changes::{ChangeRow, read_change_set};
pub use encoder_cache::EncoderCache;
pub use line::{SystemProperties, write_entity_line};
pub(crate) use read::defect;
pub use read::{read_entity, read_stored_entity, read_table};
pub use request::{write_entity_request, write_table_request};
pub use sets::{read_entity_set, read_table_set};
pub use write::{
    end_entity_set, write_entity_in_set, write_single_entity, write_single_table, write_start_of_entity_set,
    write_table_set,
};
