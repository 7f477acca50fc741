//! The minimum work for durable writes: bodies are appended to a file and synced in groups before they are
//! acknowledged.

use bytes::Bytes;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

const GROUP_BODIES_MAX: usize = 1024;
/// The size at which writing restarts at the beginning of the log, in bytes. The log therefore never fills a disk.
const LOG_BYTES_MAX: u64 = 1 << 30;

type Appended = oneshot::Sender<Result<(), Arc<io::Error>>>;

#[derive(Debug, Clone)]
pub(crate) struct GroupLog {
    queue: mpsc::Sender<(Bytes, Appended)>,
}

impl GroupLog {
    /// Truncates an existing file. The writing thread exits when the last handle is dropped.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        let (queue, mut bodies) = mpsc::channel::<(Bytes, Appended)>(4096);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            let (mut group, mut bytes, mut size) = (Vec::new(), Vec::new(), 0);
            while bodies.blocking_recv_many(&mut group, GROUP_BODIES_MAX) > 0 {
                bytes.clear();
                for (body, _) in &group {
                    bytes.extend_from_slice(body);
                }
                let result = write(&mut file, &mut size, &bytes).map_err(Arc::new);
                for (_, appended) in group.drain(..) {
                    // The client may have closed its connection.
                    drop(appended.send(result.clone()));
                }
            }
        })?;
        Ok(Self { queue })
    }

    /// Returns once the body is on disk.
    pub(crate) async fn append(&self, body: Bytes) -> Result<(), Arc<io::Error>> {
        let gone = || Arc::new(io::Error::other("the log is closed"));
        let (appended, answer) = oneshot::channel();
        self.queue.send((body, appended)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn write(file: &mut File, size: &mut u64, bytes: &[u8]) -> io::Result<()> {
    if *size > LOG_BYTES_MAX {
        file.set_len(0)?;
        file.rewind()?;
        *size = 0;
    }
    *size += bytes.len() as u64;
    file.write_all(bytes)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn acknowledged_bodies_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = GroupLog::create(&path).unwrap();
        let appends = (0..20).map(|_| {
            let log = log.clone();
            tokio::spawn(async move { log.append(Bytes::from_static(b"body")).await.is_ok() })
        });
        for append in appends.collect::<Vec<_>>() {
            assert!(append.await.unwrap());
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"body".repeat(20));
    }
}
