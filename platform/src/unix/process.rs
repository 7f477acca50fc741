//! Limits and resource usage of this process. Values read from `/proc` are available only on Linux.

use crate::access::OpenFilesLimit;
use rustix::fs::Mode;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process_group, setrlimit, umask};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use std::{env, io};

/// Removes all permissions of the group and of others from files and folders created from now on, including those
/// created by libraries. Permissions that the current umask already removes stay removed.
pub fn make_new_files_private() {
    let private = Mode::RWXG | Mode::RWXO;
    let before = umask(private);
    umask(before | private);
}

/// Replaces this process with a new instance of the same program and command line, and adds the given variables to its
/// environment. The process keeps its ID, its open files and its ignored signals. Returns only on failure.
pub fn restart_with(variables: &[(&str, &str)]) -> io::Error {
    let mut words = env::args_os();
    let mut program = match env::current_exe() {
        Ok(path) => Command::new(path),
        Err(error) => return error,
    };
    if let Some(name) = words.next() {
        program.arg0(name);
    }
    program.args(words).envs(variables.iter().copied()).exec()
}

/// The maximum number of files that a program may keep open only to save the time of opening them again. It leaves room
/// for other files and connections within the usual limits, which are 1,024 on Linux and 256 on macOS.
pub const CACHED_FILES_MAX: usize = if cfg!(target_os = "macos") { 150 } else { 900 };

/// Returns the limit on open files for this process.
pub fn open_files_limit() -> OpenFilesLimit {
    /// macOS rejects more than its `OPEN_MAX`, even if it reports a higher limit.
    const MACOS_FILES_MAX: u64 = 10_240;
    let Rlimit { current, mut maximum } = getrlimit(Resource::Nofile);
    if cfg!(target_os = "macos") {
        maximum = Some(maximum.map_or(MACOS_FILES_MAX, |files| files.min(MACOS_FILES_MAX)));
    }
    OpenFilesLimit { current, maximum }
}

/// Sets the limit on open files for this process.
pub fn set_open_files_limit(files: u64) -> io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum })?)
}

/// Returns the shell with a command line to run.
pub fn shell(line: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line);
    shell
}

/// Makes a child program start in a separate process group, so Ctrl-C at the terminal does not reach the program.
pub fn start_in_own_group(program: &mut Command) {
    program.process_group(0);
}

/// Kills a child that was started in a separate process group, and the processes that it started. The child must not
/// have been waited for, because its ID can belong to another process afterwards.
pub fn kill_group(child: u32) -> io::Result<()> {
    let group = i32::try_from(child).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process_group(group, Signal::KILL)?)
}

/// Returns the processor time that the process has used in user and kernel mode, if available.
pub fn processor_time() -> Option<Duration> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// Returns the total time for which the calling thread was ready to run but waited for a processor, if available. Keeps
/// a file open for each thread that calls it.
pub fn processor_wait() -> Option<Duration> {
    thread_local! {
        static SCHEDULE: Option<File> = File::open("/proc/thread-self/schedstat").ok();
    }
    let mut buffer = [0; 64];
    let length = SCHEDULE.with(|file| file.as_ref()?.read_at(&mut buffer, 0).ok())?;
    // The time on a processor, the time of waiting for one, and the number of times that the thread got one.
    let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
    text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Returns virtual and resident memory in bytes, if available.
pub fn memory() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').map_while(|pages| pages.parse::<u64>().ok());
    let page_bytes = rustix::param::page_size() as u64;
    Some((pages.next()? * page_bytes, pages.next()? * page_bytes))
}

/// Returns the number of bytes written to the disk, if available.
pub fn written_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok())
}

/// Returns the number of open file descriptors, excluding the one opened to count them, if available.
pub fn open_files() -> Option<u64> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    Some((entries.count() as u64).saturating_sub(1))
}
