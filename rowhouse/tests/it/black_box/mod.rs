//! Black-box tests: the binary is started as its users start it, and is spoken to over the network.

mod accounts;
mod bearer;
pub(crate) mod client;
mod delegation;
mod issuer;
pub(crate) mod process;
mod refused_bodies;
mod settings;
pub(crate) mod tls;
