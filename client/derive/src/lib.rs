//! The derive macro of `rowhouse-client`.
//!
//! This crate must not be used directly: `rowhouse-client` exports the macro beside the trait.
