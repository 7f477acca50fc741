//! Limits and figures of this process. Windows has no limit of open files, and its figures are not read.

use crate::access::OpenFilesLimit;
use std::io;
use std::os::windows::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// New files inherit the access of their folder, so there is nothing to do.
pub fn make_new_files_private() {}

/// Replaces this process with the same program in another environment: Windows cannot do that.
pub fn restart_with(_variables: &[(&str, &str)]) -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// How many files this process may have open: as many as it asks for.
pub fn open_files_limit() -> OpenFilesLimit {
    OpenFilesLimit { current: None, maximum: None }
}

/// Sets how many files this process may have open: there is no limit to set.
pub fn set_open_files_limit(_files: u64) -> io::Result<()> {
    Ok(())
}

/// Makes a program that is started the first of a group of its own, so that Ctrl-C in the console does not reach it.
pub fn own_group(program: &mut Command) {
    /// `CREATE_NEW_PROCESS_GROUP` of the system.
    const NEW_GROUP: u32 = 0x200;
    program.creation_flags(NEW_GROUP);
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
