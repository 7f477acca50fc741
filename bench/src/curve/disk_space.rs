//! The disk space of data folders.

use anyhow::Context;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time without a change of the disk space after which background work is considered finished.
const QUIET_TIME: Duration = Duration::from_secs(3);

pub(super) async fn quiet_disk_space(folder: &Path) -> anyhow::Result<u64> {
    let (mut last, mut since) = (disk_space(folder)?, Instant::now());
    while since.elapsed() < QUIET_TIME {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = disk_space(folder)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

/// Returns the size in bytes, including subfolders. Ignores files that are removed during the traversal.
pub(super) fn disk_space(folder: &Path) -> anyhow::Result<u64> {
    /// The unit of the block count, which Linux specifies but POSIX does not.
    const BLOCK_BYTES: u64 = 512;
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_space(&entry.path())?,
            Ok(metadata) => metadata.blocks() * BLOCK_BYTES,
            Err(_) => 0,
        };
    }
    Ok(bytes)
}
