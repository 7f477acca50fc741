//! What requests may take: memory and places at one time (`admission.rs`), entities in a second (`throttle/`), and what an
//! account may keep (`quota/`).
//!
//! Each is a step that takes what it needs of a request. This folder must not know operations, formats or HTTP.

pub(crate) mod admission;
pub(crate) mod quota;
pub(crate) mod throttle;
