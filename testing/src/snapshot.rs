//! States of a server that a test keeps and returns to.

use crate::TestClock;
use crate::error::Error;
use anyhow::anyhow;
use store::{MemoryCheckpoint, MemoryCheckpoints};

/// Everything that a [`TestServer`](crate::TestServer) held at one instant; taken by
/// [`TestServer::snapshot`](crate::TestServer::snapshot).
///
/// ```
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// use rowhouse_testing::TestServer;
///
/// // Two servers may begin with the same data.
/// let (one, other) = (TestServer::start_blocking()?, TestServer::start_blocking()?);
/// other.restore(&one.snapshot()?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot(MemoryCheckpoint);

/// The states of a server.
#[derive(Debug)]
pub(crate) struct States {
    /// `None` if the data are on disk.
    memory: Option<(MemoryCheckpoints<TestClock>, Snapshot)>,
}

impl States {
    /// Those of a server that begins now.
    pub(crate) fn new(checkpoints: Option<MemoryCheckpoints<TestClock>>) -> Self {
        let memory = checkpoints.map(|checkpoints| {
            let initial = Snapshot(checkpoints.take());
            (checkpoints, initial)
        });
        Self { memory }
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, Error> {
        let (checkpoints, _) = self.memory()?;
        Ok(Snapshot(checkpoints.take()))
    }

    pub(crate) fn restore(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let (checkpoints, _) = self.memory()?;
        checkpoints.return_to(&snapshot.0);
        Ok(())
    }

    pub(crate) fn reset(&self) -> Result<(), Error> {
        let (checkpoints, Snapshot(initial)) = self.memory()?;
        checkpoints.begin_again(initial);
        Ok(())
    }

    fn memory(&self) -> Result<&(MemoryCheckpoints<TestClock>, Snapshot), Error> {
        let on_disk = || anyhow!("only a server with the data in memory has snapshots: start it without a data folder");
        self.memory.as_ref().ok_or_else(|| Error::new(on_disk()))
    }
}
