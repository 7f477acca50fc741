//! The maximum number of files that this process may have open, including connections.
//!
//! The limit covers connections as well as the engine's files. If connections used all of it, the engine could not open
//! a file to write, and would report a disk failure. Connections therefore get only what the engine does not need.

use platform::OpenFilesLimit;
use platform::process::{open_files_limit, set_open_files_limit};
use tracing::warn;

/// Files that are not client connections. The storage library keeps up to 900 open for reading; the others are files
/// being written, segments of the log, and connections to a database.
const OTHER_FILES: u64 = 1100;

/// Raises the limit on open files for the given number of connections, as far as the system allows. Returns how many
/// connections are possible.
///
/// Many systems start a program with a limit of 1,024 files, but let it request far more.
pub(crate) fn connection_capacity(asked: usize) -> usize {
    let OpenFilesLimit { current, maximum } = open_files_limit();
    let needed = (asked as u64).saturating_add(OTHER_FILES);
    let mut files = current.unwrap_or(u64::MAX);
    let possible = maximum.unwrap_or(u64::MAX).min(needed);
    if files < possible {
        match set_open_files_limit(possible) {
            Ok(()) => files = possible,
            Err(error) => warn!(%error, "failed to raise the limit on open files"),
        }
    }
    let room = capacity_for(files, asked);
    if room < asked {
        warn!(
            files,
            "the limit on open files allows only {room} connections, not {asked}; raise it (ulimit -Hn, LimitNOFILE) or \
             lower --max-connections"
        );
    }
    room
}

/// If there are not even enough files for the engine, connections get a quarter of them.
fn capacity_for(files: u64, asked: usize) -> usize {
    let room = files.saturating_sub(OTHER_FILES).max(files / 4).max(1);
    usize::try_from(room).unwrap_or(usize::MAX).min(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_engine() {
        for (files, asked, room) in [
            (65_536, 10_000, 10_000),
            (u64::MAX, 10_000, 10_000),
            (11_100, 10_000, 10_000),
            (11_099, 10_000, 9_999),
            (4096, 10_000, 2_996),
            (1024, 10_000, 256),
            (1024, 10, 10),
            (1, 10, 1),
        ] {
            assert_eq!(capacity_for(files, asked), room, "{asked} with {files} files");
        }
    }

    #[test]
    fn the_limit_is_raised_when_it_may_be() {
        let before = open_files_limit();
        let room = connection_capacity(3000);
        let after = open_files_limit();
        assert_eq!(after.maximum, before.maximum);
        assert!(room == 3000 || after.current == after.maximum, "{room} with {after:?}");
    }
}
