//! The limits of requests: memory and number at one time (`admission.rs`), entities in a second (`throttle/`), and how much an
//! account may keep (`quota/`).
//!
//! Each is called by one step of the request path. This folder must not know operations, formats or HTTP.

pub(crate) mod admission;
pub(crate) mod quota;
pub(crate) mod throttle;
