//! The properties of an account's service: CORS rules, logging and metrics.
//!
//! This folder must not know tables or entities.

pub mod cors;
pub mod service_properties;
