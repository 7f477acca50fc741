//! A real Azure Tables service for a test.
//!
//! [`TestServer`] is the Rowhouse server, running in the test's process on a free port of the loopback address with its
//! data in memory. It starts in a few milliseconds, supports the whole protocol for any client library, and stops when
//! it is dropped, so each test can have its own. [`TestServer::program`] starts the installed program instead, so that
//! the server need not be compiled.
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
//! 3. A server sets nothing process-wide, such as a logger. Only the search for the program reads environment
//!    variables.
//!
//! Features:
//!
//! | feature | content |
//! |---|---|
//! | `in-process` (default) | the server in the test's process |
//! | `embedded` | data on disk for that server |
//!
//! Without its default features, the crate only starts the program, and compiles in seconds. [`TestServer`] is then
//! [`ProgramServer`].
//!
//! This crate must not depend on client libraries or on how an engine stores data.

mod error;
#[cfg(feature = "in-process")]
mod in_process;
mod program;

#[cfg(feature = "in-process")]
#[doc(inline)]
pub use ::server::TestClock;
pub use error::Error;
#[cfg(feature = "in-process")]
pub use in_process::{Costs, Fault, Snapshot, TestServer, TestServerBuilder};
pub use program::{ProgramAccount, ProgramBuilder, ProgramClock, ProgramServer, ProgramSnapshot};

/// The server for tests: the installed program, because the feature `in-process` is off.
#[cfg(not(feature = "in-process"))]
pub type TestServer = ProgramServer;

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
