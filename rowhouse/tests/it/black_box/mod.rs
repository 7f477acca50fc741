//! Black-box tests: they start the program as its users do, and communicate with it over the network.

mod accounts;
mod bearer;
pub(crate) mod client;
mod delegation;
pub(crate) mod process;
mod refused_bodies;
mod settings;
pub(crate) mod tls;
