use crate::error::Error;
use anyhow::anyhow;
use engine::MemoryCheckpoint;
use server::TestData;

/// The complete data of a [`TestServer`](crate::TestServer) at one point in time; created by
/// [`TestServer::snapshot`](crate::TestServer::snapshot).
///
/// ```
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// use rowhouse_testing::TestServer;
///
/// // Two servers can start with the same data.
/// let (one, other) = (TestServer::start_blocking()?, TestServer::start_blocking()?);
/// other.restore(&one.snapshot()?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot(MemoryCheckpoint);

#[derive(Debug)]
pub(crate) struct SnapshotStore {
    /// `None` if the data is on disk.
    memory: Option<(TestData, Snapshot)>,
}

impl SnapshotStore {
    pub(crate) fn new(data: Option<TestData>) -> Self {
        let memory = data.map(|data| {
            let initial = Snapshot(data.take());
            (data, initial)
        });
        Self { memory }
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, Error> {
        let (data, _) = self.memory()?;
        Ok(Snapshot(data.take()))
    }

    pub(crate) fn restore(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let (data, _) = self.memory()?;
        data.restore(&snapshot.0);
        Ok(())
    }

    pub(crate) fn reset(&self) -> Result<(), Error> {
        let (data, Snapshot(initial)) = self.memory()?;
        data.reset_to(initial);
        Ok(())
    }

    fn memory(&self) -> Result<&(TestData, Snapshot), Error> {
        let on_disk =
            || anyhow!("only a server with its data in memory supports snapshots: start it without a data folder");
        self.memory.as_ref().ok_or_else(|| Error::new(on_disk()))
    }
}
