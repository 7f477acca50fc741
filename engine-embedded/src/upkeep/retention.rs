//! Compresses the segments of the log that are kept for readers, and drops the oldest ones when they become too old or
//! too large together, or when the disk is almost full.

use crate::disk::layout::{self, DeletedTable};
use crate::disk::payload::{Operations, Origin};
use crate::disk::space::{Disk, RoomRequest};
use crate::disk::storage_error::StorageError;
use crate::log::archive::Archive;
use crate::log::options::SEGMENT_BYTES;
use crate::log::real_disk::RealDisk;
use crate::state::EmbeddedState;
use engine::KeepChanges;
use engine::parts::monotonic;
use model::DateTime;
use model::datetime::TICKS_PER_SECOND;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// The interval at which the free space is checked, also while a segment is compressed. Writers that fill
/// [`ROOM_BYTES_MIN`] in less time send a [`RoomRequest`] before they are refused.
const SPACE_INTERVAL: Duration = Duration::from_millis(100);
/// The interval at which the age and the size are checked.
const AGE_INTERVAL: Duration = Duration::from_secs(5);
/// If fewer bytes can be written before writes are refused, the oldest kept segments are dropped.
const ROOM_BYTES_MIN: u64 = 2 * SEGMENT_BYTES;
/// The number of bytes that are then made free in addition: the size of a segment that is compressed. Otherwise, the
/// compression would be the next to find too little room.
const ROOM_BYTES_MORE: u64 = SEGMENT_BYTES;
/// The number of names that are removed in one transaction.
const NAMES_MAX: usize = 1024;

/// Runs until the engine closes.
pub(crate) fn keep(
    shared: &EmbeddedState,
    bounds: KeepChanges,
    disk: &Disk,
    is_standby: bool,
    (requests, stop): (&Receiver<RoomRequest>, &Receiver<()>),
) {
    let Some(archive) = shared.storage.upkeep.archive() else { return };
    let mut checked: Option<Instant> = None;
    let mut has_failed = false;
    let mut ages = Ages::new(shared.clock.now());
    let is_stopped = || stop.try_recv() != Err(TryRecvError::Empty);
    // A request that was received while a segment was compressed.
    let mut request = None;
    loop {
        // `disk` holds a sender, so this waits.
        request = request.or_else(|| requests.recv_timeout(SPACE_INTERVAL).ok());
        if is_stopped() {
            return;
        }
        let is_due = checked.is_none_or(|at| at.elapsed() >= AGE_INTERVAL);
        let mut step = || -> Result<(), StorageError> {
            archive.remove_unreadable()?;
            let asked = request.take();
            make_room(shared, archive, disk, asked.as_ref().map_or(0, |request| request.bytes))?;
            drop(asked);
            let mut room_checked = monotonic::now();
            shared.storage.upkeep.keep(shared.storage.tree.persisted(), &mut |pause| {
                request = requests.recv_timeout(pause).ok();
                let is_room_due = room_checked.elapsed() >= SPACE_INTERVAL;
                if is_room_due {
                    room_checked = monotonic::now();
                }
                request.is_none()
                    && !is_stopped()
                    && !(is_room_due && disk.room_bytes(shared.storage.tree.unflushed_bytes()) < ROOM_BYTES_MIN)
            })?;
            if is_due {
                ages.see(archive);
                let now = ages.now(shared.clock.now());
                drop_excess(archive, bounds, now, |id| ages.is_seen_longer(id, bounds.age))?;
                // A standby forgets them when its primary does.
                if !is_standby {
                    forget_names(shared, archive)?;
                }
            }
            Ok(())
        };
        let result = step();
        if is_due {
            checked = Some(monotonic::now());
        }
        if let Err(error) = &result
            && !has_failed
        {
            tracing::error!(%error, "segments of the log could not be kept or removed; it will be retried");
        }
        has_failed = result.is_err();
    }
}

/// Prefers new writes to old log. `bytes` is how much must be writable, if that is more than [`ROOM_BYTES_MIN`].
pub(crate) fn make_room(
    shared: &EmbeddedState,
    archive: &Archive<RealDisk>,
    disk: &Disk,
    bytes: u64,
) -> Result<(), StorageError> {
    let needed = bytes.max(ROOM_BYTES_MIN);
    let room_bytes = || disk.room_bytes(shared.storage.tree.unflushed_bytes());
    if room_bytes() >= needed {
        return Ok(());
    }
    while room_bytes() < needed.saturating_add(ROOM_BYTES_MORE) {
        let Some(dropped) = archive.drop_oldest()? else {
            let storage = &shared.storage;
            return Ok(storage.upkeep.release_without_keeping(storage.tree.persisted())?);
        };
        tracing::warn!(
            first = dropped.first.get(),
            end = dropped.end.get(),
            freed_bytes = dropped.bytes,
            "the disk is almost full, so the oldest part of the log that was kept for readers was removed; readers cannot resume before its end"
        );
    }
    Ok(())
}

/// The ages of archived segments, which do not depend on the clock alone: it may be set.
pub(crate) struct Ages {
    began: (DateTime, Instant),
    /// When each archived segment was first seen.
    seen: BTreeMap<u64, Instant>,
}

impl Ages {
    pub(crate) fn new(now: DateTime) -> Self {
        Self { began: (now, monotonic::now()), seen: BTreeMap::new() }
    }

    /// Returns the time by the clock, or an earlier time if the clock was set forward since the start.
    pub(crate) fn now(&self, now: DateTime) -> i64 {
        let elapsed = i64::try_from(self.began.1.elapsed().as_micros()).unwrap_or(i64::MAX).saturating_mul(10);
        // A clock may be adjusted gradually.
        let slack = elapsed / 64 + TICKS_PER_SECOND;
        now.ticks().min(self.began.0.ticks().saturating_add(elapsed).saturating_add(slack))
    }

    pub(crate) fn see(&mut self, archive: &Archive<RealDisk>) {
        let segments = archive.segments();
        self.seen.retain(|id, _| segments.first().is_some_and(|first| *id >= first.id));
        for segment in segments {
            self.seen.entry(segment.id).or_insert_with(monotonic::now);
        }
    }

    /// Returns whether a segment has been archived for longer than a time. Its transactions are even older.
    pub(crate) fn is_seen_longer(&self, id: u64, age: Duration) -> bool {
        self.seen.get(&id).is_some_and(|since| since.elapsed() > age)
    }
}

/// Drops the oldest segments that are too old and not held, or too large together. `is_seen_long` says of a segment
/// that it has been archived for too long, whatever its stamps say.
pub(crate) fn drop_excess(
    archive: &Archive<RealDisk>,
    bounds: KeepChanges,
    now: i64,
    is_seen_long: impl Fn(u64) -> bool,
) -> Result<(), StorageError> {
    let age = bounds.age.as_secs().saturating_mul(TICKS_PER_SECOND.unsigned_abs());
    let oldest_kept = now.unsigned_abs().saturating_sub(age);
    while let Some(oldest) = archive.oldest() {
        let is_old = oldest.newest.unwrap_or_default() < oldest_kept || is_seen_long(oldest.id);
        let is_held = archive.holds.first().is_some_and(|first| first < oldest.end);
        if (!is_old || is_held) && archive.bytes() <= bounds.bytes {
            break;
        }
        archive.drop_oldest()?;
        if is_held {
            tracing::warn!(
                end = oldest.end.get(),
                kept_bytes = bounds.bytes,
                "the kept log reached its maximum size, so a part was removed that a standby needs after its base copy; \
                 give this server a larger --keep-log-mib"
            );
        }
        tracing::debug!(
            first = oldest.first.get(),
            end = oldest.end.get(),
            is_old,
            "a part of the kept log was removed"
        );
    }
    Ok(())
}

/// Removes the names of deleted tables that the log does not mention.
pub(crate) fn forget_names(shared: &EmbeddedState, archive: &Archive<RealDisk>) -> Result<(), StorageError> {
    let Some(oldest) = archive.oldest().and_then(|segment| segment.oldest) else { return Ok(()) };
    remove_names(shared, |deleted| deleted.deleted.ticks().unsigned_abs() < oldest)
}

/// Removes the names of deleted tables.
pub(crate) fn remove_names(
    shared: &EmbeddedState,
    is_removed: impl Fn(&DeletedTable) -> bool,
) -> Result<(), StorageError> {
    loop {
        let mut operations = Operations::default();
        for entry in shared.storage.tree.snapshot().range(layout::DELETED_PREFIX..layout::DELETED_END) {
            let (key, value) = entry?;
            if DeletedTable::decode(&key, &value).is_some_and(|deleted| is_removed(&deleted)) {
                operations.delete(key);
            }
            if operations.len() == NAMES_MAX {
                break;
            }
        }
        if operations.is_empty() {
            return Ok(());
        }
        shared.storage.write(vec![operations.into_transaction(Origin::Purge)], None, true)?;
    }
}
