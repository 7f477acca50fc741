//! How values are written as characters: Base64, numbers, and strings in JSON, XML and URLs.
//!
//! This folder must not know requests or entities.

pub(crate) mod binary;
pub(crate) mod json_string;
pub mod number;
pub mod uri;
pub mod xml;
