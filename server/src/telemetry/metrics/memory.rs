//! The memory of the process, by use.
//!
//! The system reports how much memory is resident, and how much of it is backed by files. The server itself counts some
//! parts of the rest. The remainder is freed memory that the allocator keeps, and memory that is not counted. The parts
//! add up to the resident memory, unless the counted parts exceed it.
//!
//! Invariant: the value for bodies is limited to the memory that bodies can actually use, because it is reserved
//! before it is used.

use super::metrics_page::{MetricsPage, MetricsSnapshot};
use std::fmt;
use std::sync::atomic::Ordering;

/// The memory of a connection without a request in progress, in bytes: its tasks, buffers and entries in maps.
/// Measured with 4,000 connections: 14 to 16 KiB.
const CONNECTION_BYTES: u64 = 16 * 1024;

/// The memory of the process as reported by the system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ResidentMemory {
    peak: u64,
    /// Not backed by a file.
    anonymous: u64,
    /// The program, and mapped files.
    files: u64,
}

/// The memory that the server counts, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CountedMemory {
    cache: u64,
    memtables: u64,
    pinned: u64,
    commit_queue: u64,
    connections: u64,
    /// Reserved, but not necessarily used.
    bodies: u64,
}

pub(super) fn write(page: &mut MetricsPage<'_, '_>, snapshot: &MetricsSnapshot) -> fmt::Result {
    let status = std::fs::read_to_string("/proc/self/status").ok();
    let Some(resident) = status.as_deref().and_then(ResidentMemory::read) else { return Ok(()) };
    let help = "Resident memory of the process by use; allocator is the remainder: freed memory that the allocator \
                keeps, and what is not counted";
    page.gauges("memory_bytes", help, |family| {
        let mut parts = parts(resident, CountedMemory::from_snapshot(snapshot)).into_iter();
        parts.try_for_each(|(part, bytes)| family.value(&[("part", part)], bytes))
    })?;
    let help = "Peak resident memory of the process";
    page.gauge("memory_peak_bytes", help, resident.peak)
}

impl ResidentMemory {
    fn read(status: &str) -> Option<Self> {
        let bytes = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
        };
        Some(Self {
            peak: bytes("VmHWM")?,
            anonymous: bytes("RssAnon")?,
            files: bytes("RssFile")? + bytes("RssShmem")?,
        })
    }
}

impl CountedMemory {
    fn from_snapshot(snapshot: &MetricsSnapshot) -> Self {
        let connections = snapshot.connections.open.load(Ordering::Relaxed) * CONNECTION_BYTES;
        let Some((figures, limits)) = &snapshot.service else { return Self { connections, ..Self::default() } };
        let tree = figures.tree.as_ref().map(|tree| tree.memory).unwrap_or_default();
        Self {
            cache: tree.cache,
            memtables: tree.memtables,
            pinned: tree.pinned,
            commit_queue: figures.committer.as_ref().map_or(0, |committer| committer.queue_bytes),
            connections,
            bodies: limits.memory_bytes.used,
        }
    }
}

fn parts(resident: ResidentMemory, counted: CountedMemory) -> [(&'static str, u64); 8] {
    let CountedMemory { cache, memtables, pinned, commit_queue, connections, bodies } = counted;
    let left = resident.anonymous.saturating_sub(cache + memtables + pinned + commit_queue + connections);
    let bodies = bodies.min(left);
    [
        ("cache", cache),
        ("memtables", memtables),
        ("pinned", pinned),
        ("commit_queue", commit_queue),
        ("connections", connections),
        ("bodies", bodies),
        ("program", resident.files),
        ("allocator", left - bodies),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;
    const RESIDENT: ResidentMemory = ResidentMemory { peak: 600 * MIB, anonymous: 400 * MIB, files: 20 * MIB };

    fn part(counted: CountedMemory, name: &str) -> u64 {
        parts(RESIDENT, counted).into_iter().find(|(part, _)| *part == name).unwrap().1
    }

    #[test]
    fn the_status_of_the_system_is_read() {
        let status = "Name:\trowhouse\nVmHWM:\t  600 kB\nVmRSS:\t  421 kB\nRssAnon:\t  400 kB\nRssFile:\t  20 kB\n\
                      RssShmem:\t   1 kB\n";
        let expected = ResidentMemory { peak: 600 * 1024, anonymous: 400 * 1024, files: 21 * 1024 };
        assert_eq!(ResidentMemory::read(status), Some(expected));
        assert_eq!(ResidentMemory::read("Name:\trowhouse\n"), None);
    }

    #[test]
    fn what_is_counted_moves_its_own_part_and_the_rest_is_the_allocators() {
        let counted = [
            ("cache", CountedMemory { cache: 100 * MIB, ..CountedMemory::default() }),
            ("memtables", CountedMemory { memtables: 100 * MIB, ..CountedMemory::default() }),
            ("pinned", CountedMemory { pinned: 100 * MIB, ..CountedMemory::default() }),
            ("commit_queue", CountedMemory { commit_queue: 100 * MIB, ..CountedMemory::default() }),
            ("connections", CountedMemory { connections: 100 * MIB, ..CountedMemory::default() }),
            ("bodies", CountedMemory { bodies: 100 * MIB, ..CountedMemory::default() }),
        ];
        for (name, counted) in counted {
            assert_eq!(part(counted, name), 100 * MIB);
            assert_eq!(part(counted, "allocator"), 300 * MIB, "{name}");
            assert_eq!(part(counted, "program"), 20 * MIB, "{name}");
            assert_eq!(parts(RESIDENT, counted).map(|(_, bytes)| bytes).iter().sum::<u64>(), 420 * MIB, "{name}");
        }
    }

    #[test]
    fn bodies_that_are_reserved_and_not_used_take_no_memory() {
        let counted = CountedMemory { cache: 256 * MIB, bodies: 512 * MIB, ..CountedMemory::default() };
        assert_eq!(part(counted, "bodies"), 144 * MIB);
        assert_eq!(part(counted, "allocator"), 0);
    }
}
