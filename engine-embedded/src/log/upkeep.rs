//! The work on a log that threads other than the committer do: syncing at intervals, preparing the next segment, and
//! releasing old ones.

use crate::log::archive::Archive;
use crate::log::disk::{Disk, DiskFile, ReadAt};
use crate::log::errors::{DiskError, OpenLogError, WriteError};
use crate::log::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::log::options::{Durability, Options};
use crate::log::segment_reader::SegmentReader;
use crate::log::segments::{BegunSegment, Files, LiveSegment, Name, Segments};
use crate::log::tail::SharedTail;
use crate::sequence::Sequence;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What the writer of a log and the other threads share.
#[derive(Debug)]
pub(crate) struct Shared<D: Disk> {
    pub(crate) segments: Segments<D>,
    pub(crate) tail: SharedTail<D::File>,
    /// Where segments go when they are released, if they are kept for readers.
    pub(crate) archive: OnceLock<Archive<D>>,
}

impl<D: Disk> Shared<D> {
    pub(crate) fn new(segments: Segments<D>, durability: Durability, current: BegunSegment<D::File>) -> Self {
        Self { segments, tail: SharedTail::new(durability, current), archive: OnceLock::new() }
    }
}

#[derive(Debug)]
pub(crate) struct Upkeep<D: Disk> {
    pub(crate) shared: Arc<Shared<D>>,
}

impl<D: Disk> Clone for Upkeep<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// The result of [`Upkeep::prepare_next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preparation {
    /// A file waits already, another thread prepares one, or too little was written to the current segment.
    NotNeeded,
    /// The caller stopped it, the log was retired, or a released segment has become available.
    Stopped,
    Prepared,
}

impl<D: Disk> Upkeep<D> {
    pub(crate) fn new(shared: &Arc<Shared<D>>) -> Self {
        Self { shared: Arc::clone(shared) }
    }

    /// Keeps segments for readers from now on, in a folder that contains nothing else.
    pub(crate) fn keep_in(&self, folder: D) -> Result<(), DiskError> {
        let (next, oldest) = {
            let next = self.shared.tail.state.lock().appended.last.next();
            let files = self.shared.segments.files.lock();
            (next, files.live.front().map_or((0, next), |segment| (segment.id, segment.first)))
        };
        // It is set only once, when the log is opened.
        let _is_set = self.shared.archive.set(Archive::open(folder, next, oldest)?);
        Ok(())
    }

    /// Returns the segments that are kept for readers, if any are.
    pub(crate) fn archive(&self) -> Option<&Archive<D>> {
        self.shared.archive.get()
    }

    /// Returns the last transaction that is on disk.
    pub(crate) fn synced_through(&self) -> Sequence {
        self.shared.tail.state.lock().synced.last
    }

    /// Returns whether writes are refused because a write or a sync failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.tail.state.lock().has_failed
    }

    /// Returns the number of live segments, and their size in bytes, with the files that wait for reuse.
    pub(crate) fn size(&self) -> io::Result<(u64, u64)> {
        let Segments { disk, .. } = &self.shared.segments;
        let (mut segments, mut bytes) = (0, 0);
        for name in disk.names()? {
            match disk.open_to_read(&name).and_then(|file| file.length()) {
                Ok(length) => bytes += length,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            segments += u64::from(matches!(Name::parse(&name), Some(Name::Live(_))));
        }
        Ok((segments, bytes))
    }

    /// Syncs everything appended before the call. Returns the last transaction that is on disk.
    pub(crate) fn sync(&self) -> Result<Sequence, WriteError> {
        self.shared.tail.sync()
    }

    /// Releases the segments whose transactions are all persisted elsewhere. The current segment always stays. If
    /// segments are kept, this is left to [`Self::keep`].
    ///
    /// `persisted` must have been synced in the log before. If this fails, it can be repeated.
    pub(crate) fn release(&self, persisted: Sequence) -> Result<(), DiskError> {
        if self.archive().is_some() { Ok(()) } else { self.release_without_keeping(persisted) }
    }

    /// Like [`Self::release`], even if segments are kept. Readers lose what is released.
    pub(crate) fn release_without_keeping(&self, persisted: Sequence) -> Result<(), DiskError> {
        while self.oldest_to_release(persisted).is_some() {
            self.release_oldest(persisted)?;
        }
        Ok(())
    }

    /// Archives the segments whose transactions are all persisted elsewhere, and then releases them. Only one thread
    /// may call this. `pause` is as for [`Self::prepare_next`].
    pub(crate) fn keep(&self, persisted: Sequence, pause: &mut dyn FnMut(Duration) -> bool) -> Result<(), DiskError> {
        let Some(archive) = self.archive() else { return Ok(()) };
        let disk = &self.shared.segments.disk;
        // The files are not locked while a segment is archived, because this takes long. A sealed segment does not
        // change.
        while let Some(oldest) = self.oldest_to_release(persisted) {
            let next = self.header(oldest.id + 1);
            match next.and_then(|next| archive.add(disk, oldest.id, &next, pause)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(OpenLogError::Disk(error)) => return Err(error),
                Err(error @ OpenLogError::Damaged { .. }) => {
                    tracing::error!(%error, "a segment of the log cannot be kept for readers; they can read only later transactions");
                    while archive.drop_oldest()?.is_some() {}
                }
            }
            self.release_oldest(persisted)?;
        }
        Ok(())
    }

    fn oldest_to_release(&self, persisted: Sequence) -> Option<LiveSegment> {
        let files = self.shared.segments.files.lock();
        let (oldest, next) = (files.live.front().copied()?, files.live.get(1)?);
        (next.first.previous() <= persisted).then_some(oldest)
    }

    fn header(&self, id: u64) -> Result<SegmentHeader, OpenLogError> {
        SegmentReader::open(&self.shared.segments.disk, id, SEGMENT_HEADER_BYTES)?.header(id)
    }

    /// Each step syncs the folder before the next one, because a gap between live segments would be damage. Does
    /// nothing if another thread has released the segment.
    fn release_oldest(&self, persisted: Sequence) -> Result<(), DiskError> {
        let segments = &self.shared.segments;
        let files = &mut segments.files.lock();
        if files.is_release_unsynced {
            segments.sync_folder(files)?;
        }
        let (Some(oldest), Some(next)) = (files.live.front().copied(), files.live.get(1)) else { return Ok(()) };
        if next.first.previous() > persisted {
            return Ok(());
        }
        let spare = if self.can_be_reused(oldest, files)? { self.rename_to_spare(oldest)? } else { None };
        if spare.is_none() {
            let name = Name::Live(oldest.id).to_string();
            done(segments.disk.remove(&name)).map_err(|error| DiskError::new("remove", &name, error))?;
        }
        files.live.pop_front();
        files.spares_to_sync.extend(spare);
        files.is_release_unsynced = true;
        segments.sync_folder(files)
    }

    /// A shorter file would grow when it is written again, which makes its syncs slower.
    fn can_be_reused(&self, segment: LiveSegment, files: &Files) -> Result<bool, DiskError> {
        let Segments { disk, options, .. } = &self.shared.segments;
        if segment.has_failed || files.spares.len() + files.spares_to_sync.len() >= options.spares_max {
            return Ok(false);
        }
        let name = Name::Live(segment.id).to_string();
        let length = disk.open_to_read(&name).and_then(|file| file.length());
        match length {
            Ok(length) => Ok(length >= options.segment_bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(DiskError::new("open", &name, error)),
        }
    }

    fn rename_to_spare(&self, segment: LiveSegment) -> Result<Option<String>, DiskError> {
        let (live, free) = (Name::Live(segment.id).to_string(), Name::Free(segment.id).to_string());
        done(self.shared.segments.disk.rename(&live, &free)).map_err(|error| DiskError::new("rename", &live, error))?;
        Ok(Some(free))
    }

    /// Deletes the files that wait for reuse, and stops a preparation that is in progress.
    pub(crate) fn remove_spares(&self) -> Result<(), DiskError> {
        let segments = &self.shared.segments;
        let mut files = segments.files.lock();
        files.retirements += 1;
        while let Some(name) = files.spares.pop() {
            done(segments.disk.remove(&name)).map_err(|error| DiskError::new("remove", &name, error))?;
        }
        Ok(())
    }

    /// Prepares a file for the next segment, if none waits and the current segment has reached a certain size. Its
    /// blocks are written in advance, which makes the syncs of groups a third faster.
    ///
    /// `pause` is called after each write with the time for which the thread must sleep to keep to the rate. If it
    /// returns false, the preparation stops.
    pub(crate) fn prepare_next(&self, pause: &mut dyn FnMut(Duration) -> bool) -> Result<Preparation, DiskError> {
        let segments = &self.shared.segments;
        if self.shared.tail.state.lock().appended.end.offset < segments.options.prepare_after_bytes {
            return Ok(Preparation::NotNeeded);
        }
        let retirements = {
            let mut files = segments.files.lock();
            if files.is_preparing || files.has_spares() {
                return Ok(Preparation::NotNeeded);
            }
            files.is_preparing = true;
            files.retirements
        };
        let prepared = self.prepare(retirements, pause);
        if !matches!(prepared, Ok(Preparation::Prepared)) {
            // If this fails too, the file is replaced by the next preparation, or deleted by recovery.
            let _ = segments.disk.remove(&Name::Prepared(Name::PREPARER).to_string());
        }
        segments.files.lock().is_preparing = false;
        prepared
    }

    fn prepare(&self, retirements: u64, pause: &mut dyn FnMut(Duration) -> bool) -> Result<Preparation, DiskError> {
        let segments = &self.shared.segments;
        let name = Name::Prepared(Name::PREPARER).to_string();
        let file = segments.disk.create(&name).map_err(|error| DiskError::new("create", &name, error))?;
        let Options { segment_bytes, prepare_chunk_bytes, prepare_bytes_per_second, .. } = segments.options;
        let chunk = vec![0; prepare_chunk_bytes];
        let mut written = 0;
        while written < segment_bytes {
            let left = usize::try_from(segment_bytes - written).unwrap_or(usize::MAX);
            let part = chunk.get(..left).unwrap_or(&chunk);
            file.write_all_at(part, written).map_err(|error| DiskError::new("write", &name, error))?;
            // A sync of the whole file at the end would delay the syncs of groups.
            file.sync_data().map_err(|error| DiskError::new("sync", &name, error))?;
            written += part.len() as u64;
            let nanoseconds = (part.len() as u64).saturating_mul(1_000_000_000) / prepare_bytes_per_second.max(1);
            if !pause(Duration::from_nanos(nanoseconds)) || segments.files.lock().retirements != retirements {
                return Ok(Preparation::Stopped);
            }
        }
        let free = Name::Free(Name::PREPARER).to_string();
        let files = &mut segments.files.lock();
        if files.retirements != retirements || files.has_spares() {
            return Ok(Preparation::Stopped);
        }
        segments.disk.rename(&name, &free).map_err(|error| DiskError::new("rename", &name, error))?;
        files.spares_to_sync.push(free);
        segments.sync_folder(files)?;
        Ok(Preparation::Prepared)
    }
}

/// Treats a missing file as success: an operation that reported an error may have been performed.
fn done(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
