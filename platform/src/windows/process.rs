//! Limits and figures of this process. Windows has no limit of open files, and its figures are not read.

use crate::access::OpenFilesLimit;
use std::io;
use std::os::windows::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// New files inherit the access of their folder, so there is nothing to do.
pub fn make_new_files_private() {}

/// How many files this process may have open: as many as it asks for.
pub fn open_files_limit() -> OpenFilesLimit {
    OpenFilesLimit { current: None, maximum: None }
}

/// Sets how many files this process may have open: there is no limit to set.
pub fn set_open_files_limit(_files: u64) -> io::Result<()> {
    Ok(())
}

/// Processor time that the process has used: not read.
pub fn processor_time() -> Option<Duration> {
    None
}

/// Virtual and resident memory in bytes: not read.
pub fn memory() -> Option<(u64, u64)> {
    None
}

/// Bytes sent to the disk: not read.
pub fn written_bytes() -> Option<u64> {
    None
}

/// Open files: not read.
pub fn open_files() -> Option<u64> {
    None
}

/// Makes a program that will be started the first of its own group, so that a Ctrl-C for this process is not for it.
pub fn begin_own_group(command: &mut Command) {
    /// `CREATE_NEW_PROCESS_GROUP`.
    const OWN_GROUP: u32 = 0x200;
    command.creation_flags(OWN_GROUP);
}
