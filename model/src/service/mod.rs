//! The properties of an account's service: CORS rules, logging and metrics; the settings of a table.
//!
//! This folder must not know how settings take effect.

pub mod cors;
pub mod service_properties;
pub mod table_settings;
