//! Black-box tests: the binary is started as its users start it, and is spoken to over the network.

mod accounts;
mod bearer;
mod client;
mod issuer;
mod process;
mod settings;
mod tls;
