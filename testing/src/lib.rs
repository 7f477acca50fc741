//! A real Azure Tables service inside a test.
//!
//! [`TestServer`] is the Rowhouse server, running in the test's process on a free port of the loopback address with its
//! data in memory. It starts in a few milliseconds, supports the whole protocol for any client library, and stops when
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
//! - [`TestServer::clock`] sets the time for Timestamps, the expiry of shared access signatures, and everything else
//!   that depends on the time of day.
//! - [`TestServer::snapshot`] saves all data, and [`TestServer::restore`] restores it, both in well under a
//!   millisecond.
//! - [`TestServer::costs`] counts requests and the entities that they examined, returned and wrote. A test can thus
//!   assert that a query reads one partition instead of the whole table.
//! - [`TestServer::builder`] configures everything else that a test needs: accounts, data on disk, throttling, pages
//!   that end early, and other awkward conditions of the cloud service ([`TestServerBuilder::rehearse`]).
//! - [`TestServer::inject`] makes chosen requests fail, lose their responses, or wait. A test can thus check how its
//!   program retries.
//!
//! Invariants:
//!
//! 1. Dropping a server leaves nothing behind: no thread, no open port, no temporary file.
//! 2. The request path is the same as in the program `rowhouse`; nothing is simulated except an injected [`Fault`].
//! 3. A server reads no environment variables and sets nothing process-wide, such as a logger.
//!
//! This crate must not depend on client libraries, on the command line, or on how an engine stores data.

mod costs;
mod error;
mod faults;
mod server;
mod thread;

#[doc(inline)]
pub use ::server::TestClock;
pub use costs::Costs;
pub use error::Error;
pub use faults::Fault;
pub use server::Snapshot;
pub use server::{TestServer, TestServerBuilder};

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
