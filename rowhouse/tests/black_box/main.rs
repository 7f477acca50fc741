//! Black-box tests: the binary is started as its users start it, and is spoken to over the network.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "in a test, a panic is how a failure is told")]

mod accounts;
mod bearer;
mod client;
mod issuer;
#[path = "../../../server/src/authorization/oauth/minting.rs"]
mod minting;
mod process;
mod settings;
mod tls;
