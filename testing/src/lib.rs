//! A real Azure Tables service inside a test.
//!
//! [`TestServer`] is the server of Rowhouse, in the process of the test, on a free port of the loopback address, with
//! the data in memory. It starts in a few milliseconds, speaks the whole protocol to any client library, and ends when
//! it is dropped, so each test can have its own.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rowhouse_testing::Error> {
//! let server = rowhouse_testing::TestServer::start().await?;
//! println!("{}", server.connection_string());
//! # Ok(())
//! # }
//! ```
//!
//! - [`TestServer::clock`] moves the time: Timestamps, the expiry of shared access signatures, everything that the
//!   service decides by the time of day.
//! - [`TestServer::snapshot`] keeps all data, and [`TestServer::restore`] returns to them, in well under a millisecond.
//! - [`TestServer::costs`] counts requests, and the entities that they examined, returned and wrote, so that a test can
//!   assert that a query reads one partition and not the table.
//! - [`TestServer::builder`] sets what a test needs otherwise: accounts, data on disk, throttling, pages that end
//!   early, and every other awkward thing that the service in the cloud may do ([`TestServerBuilder::rehearse`]).
//! - [`TestServer::inject`] makes chosen requests fail, lose their answers or wait, so that a test can check how its
//!   program retries.
//!
//! Invariants:
//!
//! 1. Nothing of a server is left when it is dropped: no thread, no open port, no temporary file.
//! 2. The request path is that of the program `rowhouse`; nothing is simulated except an injected [`Fault`].
//! 3. A server reads no environment variable and sets nothing for the process, such as a logger.
//!
//! This crate must not know client libraries, the command line, or how an engine stores anything.

mod costs;
mod error;
mod faults;
mod server;
mod snapshot;
mod thread;

#[doc(inline)]
pub use ::server::TestClock;
pub use costs::Costs;
pub use error::Error;
pub use faults::Fault;
pub use server::{TestServer, TestServerBuilder};
pub use snapshot::Snapshot;

/// The name of the development account, which every server has.
///
/// ```
/// assert_eq!(rowhouse_testing::DEVELOPMENT_ACCOUNT, "devstoreaccount1");
/// ```
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

/// The key of the development account. It is public and protects nothing.
///
/// ```
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// let server = rowhouse_testing::TestServer::start_blocking()?;
/// assert!(server.connection_string().contains(rowhouse_testing::DEVELOPMENT_KEY));
/// # Ok(())
/// # }
/// ```
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
