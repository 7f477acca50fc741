//! Limits and resource usage of this process. Windows does not limit open files; resource usage is not available.

use crate::access::OpenFilesLimit;
use std::io;
use std::os::windows::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Does nothing: new files inherit the access list of their folder.
pub fn make_new_files_private() {}

/// Always fails: Windows cannot replace the program of a running process.
pub fn restart_with(_variables: &[(&str, &str)]) -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// The maximum number of files that a program may keep open only to save the time of opening them again. The C library
/// allows 512 open files by default.
pub const CACHED_FILES_MAX: usize = 400;

/// Returns no limit: Windows does not limit open files.
pub fn open_files_limit() -> OpenFilesLimit {
    OpenFilesLimit { current: None, maximum: None }
}

/// Does nothing: there is no limit to set.
pub fn set_open_files_limit(_files: u64) -> io::Result<()> {
    Ok(())
}

/// Returns the command interpreter with a command line to run.
pub fn shell(line: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.arg("/C").raw_arg(line);
    shell
}

/// Makes a child program start in a separate process group, so Ctrl-C in the console does not reach the program.
pub fn start_in_own_group(program: &mut Command) {
    /// The flag `CREATE_NEW_PROCESS_GROUP`.
    const NEW_GROUP: u32 = 0x200;
    program.creation_flags(NEW_GROUP);
}

/// Kills a child and the processes that it started, except those whose parent has already exited. The child must not
/// have been waited for, because its ID can belong to another process afterwards.
pub fn kill_group(child: u32) -> io::Result<()> {
    let mut kill = Command::new("taskkill");
    kill.args(["/T", "/F", "/PID"]).arg(child.to_string());
    let status = kill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("taskkill failed with {status}"))) }
}

/// Returns `None`: the processor time of the process is not available.
pub fn processor_time() -> Option<Duration> {
    None
}

/// Returns `None`: the time that a thread waits for a processor is not available.
pub fn processor_wait() -> Option<Duration> {
    None
}

/// Returns `None`: virtual and resident memory are not available.
pub fn memory() -> Option<(u64, u64)> {
    None
}

/// Returns `None`: the number of bytes written to the disk is not available.
pub fn written_bytes() -> Option<u64> {
    None
}

/// Returns `None`: the number of open files is not available.
pub fn open_files() -> Option<u64> {
    None
}
