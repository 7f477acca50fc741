//! Opens a log.
//!
//! Recovery first reads everything and changes nothing. Then, unless the log was shut down cleanly, it begins a new
//! segment. Its header names the end that is certainly on disk, so the remains behind that end can never be revived;
//! and it contains again the groups that were found behind it. These may only be in the page cache, if the process was
//! killed, and even a sync would not help if an earlier sync of the file had failed.

use crate::log::disk::{Disk, ReadAt};
use crate::log::errors::{DiskError, OpenLogError};
use crate::log::format::SegmentEnd;
use crate::log::judgement::{self, Judged, Reading, Visitor};
use crate::log::options::Options;
use crate::log::segments::{BegunSegment, Files, Name, NextSegment, SegmentFile, Segments};
use crate::log::writer::Writer;
use crate::sequence::Sequence;

const FIRST_ID: u64 = 1;
const FIRST_EPOCH: u64 = 1;

/// What the caller knows about the log that it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Transactions up to this one are stored elsewhere, and were synced in the log before. A new log continues from
    /// here.
    pub(crate) persisted: Sequence,
    /// Whether the log may be missing, because this is the first start. Otherwise, a missing log is damage.
    pub(crate) may_be_missing: bool,
}

/// What was found when a log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// The last transaction of the log. All of it is on disk.
    pub(crate) last: Sequence,
    /// Whether the log was shut down cleanly, or is new.
    pub(crate) is_clean: bool,
    /// The end of the log, if something follows that was ignored: an incomplete write, or remains of an earlier use of
    /// the file.
    pub(crate) cut: Option<Cut>,
    /// The number of transactions that were written again because they might not have been on disk.
    pub(crate) rewritten: u64,
}

/// The place where a log ends although its segment continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) segment: u64,
    /// In bytes from the beginning of the segment.
    pub(crate) offset: u64,
}

impl Judged {
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.has_remains.then_some(Cut { segment: self.header.id, offset: self.end.end.offset })
    }

    /// Whether the last segment contains nothing. A clean shutdown leaves such a segment.
    pub(crate) fn is_clean(&self) -> bool {
        self.end.end == self.header.beginning() && !self.has_remains
    }
}

/// Opens a log and passes every record after the persisted ones to `visit`.
///
/// The records count only if this succeeds; until then, `visit` must not change anything on disk. After a failure,
/// nothing acknowledged is lost, and the log can be opened again.
pub(crate) fn open<D: Disk>(
    disk: D,
    options: Options,
    known: Known,
    visit: Visitor<'_>,
) -> Result<(Writer<D>, Recovered), OpenLogError> {
    let reading = Reading { persisted: Some(known.persisted), everything: false };
    let judged = judgement::judge(&disk, options.read_bytes, reading, visit)?;
    if judged.is_none() && !known.may_be_missing {
        return Err(OpenLogError::damaged("", "there is no segment"));
    }
    // After a kill, names may be visible that are not on disk.
    disk.sync_folder().map_err(|error| DiskError::new("sync", "the folder of the log", error))?;
    let files = Files { spares: spares(&disk, &options)?, ..Files::default() };
    let (writer, recovered) = match judged {
        Some(judged) => continue_log(disk, options, files, judged)?,
        None => begin_log(disk, options, files, known.persisted)?,
    };
    Ok((writer, recovered))
}

fn begin_log<D: Disk>(
    disk: D,
    options: Options,
    files: Files,
    persisted: Sequence,
) -> Result<(Writer<D>, Recovered), DiskError> {
    let segments = Segments::new(disk, options, files);
    let begun = segments.begin(NextSegment {
        id: FIRST_ID,
        epoch: FIRST_EPOCH,
        first: persisted.next(),
        previous: SegmentEnd::NONE,
        skipped: 0,
        groups: &mut [],
        file: SegmentFile::New,
    })?;
    let recovered = Recovered { last: persisted, is_clean: true, cut: None, rewritten: 0 };
    Ok((Writer::new(segments, begun), recovered))
}

fn continue_log<D: Disk>(
    disk: D,
    options: Options,
    mut files: Files,
    mut judged: Judged,
) -> Result<(Writer<D>, Recovered), DiskError> {
    let recovered = Recovered {
        last: judged.end.last,
        is_clean: judged.is_clean(),
        cut: judged.cut(),
        rewritten: judged.end.last.get() - judged.certain.last.get(),
    };
    files.live = std::mem::take(&mut judged.segments);
    if recovered.is_clean {
        let name = Name::Live(judged.header.id).to_string();
        let file = disk.open(&name).map_err(|error| DiskError::new("open", &name, error))?;
        let length = file.length().map_err(|error| DiskError::new("read the length of", &name, error))?;
        let is_growing = length < options.segment_bytes;
        let begun =
            BegunSegment { file, header: judged.header, is_growing, end: judged.end.end, last: judged.end.last };
        return Ok((Writer::new(Segments::new(disk, options, files), begun), recovered));
    }
    let from = judged.certain;
    let rewrites = !judged.uncertain.is_empty();
    let segments = Segments::new(disk, options, files);
    let begun = segments.begin(NextSegment {
        id: judged.header.id.saturating_add(1),
        epoch: judged.header.epoch,
        first: from.last.next(),
        previous: from.end,
        skipped: 0,
        groups: &mut judged.uncertain,
        // A shutdown leaves an empty segment as it is, and it must not take the disk space of a whole file.
        file: if rewrites { SegmentFile::SpareOrNew } else { SegmentFile::New },
    })?;
    Ok((Writer::new(segments, begun), recovered))
}

/// Returns the names of the files that can be reused, and deletes those that cannot or are too many.
fn spares<D: Disk>(disk: &D, options: &Options) -> Result<Vec<String>, DiskError> {
    let mut spares = Vec::new();
    for name in disk.names().map_err(|error| DiskError::new("list", "the folder of the log", error))? {
        let may_be_spare = match Name::parse(&name) {
            Some(Name::Free(_)) => true,
            Some(Name::Prepared(_)) => false,
            Some(Name::Live(_)) | None => continue,
        };
        let length = disk.open_to_read(&name).and_then(|file| file.length());
        let length = length.map_err(|error| DiskError::new("open", &name, error))?;
        if may_be_spare && length >= options.segment_bytes && spares.len() < options.spares_max {
            spares.push(name);
        } else {
            disk.remove(&name).map_err(|error| DiskError::new("remove", &name, error))?;
        }
    }
    Ok(spares)
}
