//! Writes the files of a merge to the disk while they grow.
//!
//! The library syncs a file when it is complete. The disk would then get up to 256 MiB at once, and the syncs of the
//! log, for which all writers wait, would have to wait for their turn. Measured beside a program that writes files of
//! 64 MiB, in four rounds: 99 % of the syncs of a log took at most 9 to 12 ms without this, and 4 to 8 ms with it.

use platform::files::begin_writing;
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The pause between two looks at the files.
const TICK: Duration = Duration::from_millis(5);
/// The size of the parts that are written, in bytes.
const PART_BYTES: u64 = 4 * 1024 * 1024;

/// Runs a merge, and writes out the files that are created in the meantime. `next_file` returns the number that the
/// next file will have as its name.
pub(super) fn write_out_during<T>(folder: &Path, next_file: impl Fn() -> u64 + Send, merge: impl FnOnce() -> T) -> T {
    let mut files = GrowingFiles { next: next_file(), missing: Vec::new(), open: Vec::new() };
    thread::scope(|scope| {
        let (merging, has_ended) = channel::<()>();
        let write_out = move || files.write_out_until(&has_ended, folder, next_file);
        // Without the thread, the files are written when they are complete.
        let _without = thread::Builder::new().name("rowhouse writeout".to_owned()).spawn_scoped(scope, write_out);
        let result = merge();
        drop(merging);
        result
    })
}

struct GrowingFiles {
    /// The number of the first file that has not been looked for.
    next: u64,
    /// The numbers of files that were not found. A file is created after its number is taken.
    missing: Vec<u64>,
    open: Vec<GrowingFile>,
}

struct GrowingFile {
    file: File,
    written_out: u64,
}

impl GrowingFiles {
    fn write_out_until(&mut self, has_ended: &Receiver<()>, folder: &Path, next_file: impl Fn() -> u64) {
        while has_ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            self.find(folder, next_file());
            for file in &mut self.open {
                file.write_out();
            }
        }
    }

    fn find(&mut self, folder: &Path, next: u64) {
        self.missing.extend(self.next..next);
        self.next = self.next.max(next);
        let open = &mut self.open;
        self.missing.retain(|number| match File::open(folder.join(number.to_string())) {
            Ok(file) => {
                open.push(GrowingFile { file, written_out: 0 });
                false
            }
            Err(_) => true,
        });
    }
}

impl GrowingFile {
    /// Begins to write what was added since the last time, if it is enough.
    fn write_out(&mut self) {
        let Ok(length) = self.file.metadata().map(|metadata| metadata.len()) else { return };
        let end = length - length % PART_BYTES;
        if end > self.written_out {
            begin_writing(&self.file, self.written_out, end - self.written_out);
            self.written_out = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_and_written_out_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let create = |number: u64, bytes: u64| {
            File::create(folder.path().join(number.to_string())).unwrap().set_len(bytes).unwrap();
        };
        create(4, 100 * PART_BYTES);
        let mut files = GrowingFiles { next: 5, missing: Vec::new(), open: Vec::new() };
        files.find(folder.path(), 7);
        assert_eq!((files.open.len(), &files.missing[..]), (0, &[5, 6][..]), "no file was created yet");
        for (bytes, written_out) in [(1, 0), (PART_BYTES, PART_BYTES), (4 * PART_BYTES - 1, 3 * PART_BYTES)] {
            create(6, bytes);
            files.find(folder.path(), 7);
            files.open.iter_mut().for_each(GrowingFile::write_out);
            let progress: Vec<_> = files.open.iter().map(|file| file.written_out).collect();
            assert_eq!((&progress[..], &files.missing[..]), (&[written_out][..], &[5][..]), "{bytes}");
        }
    }

    #[test]
    fn the_result_is_returned_and_a_panic_ends_the_thread() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(write_out_during(folder.path(), || 0, || 7), 7);
        let panics = || write_out_during(folder.path(), || 0, || panic!("the merge panics"));
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
