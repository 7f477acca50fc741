//! Figures of the process, under the names that are usual for Prometheus.

use super::metrics_page::MetricsPage;
use crate::clock;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// When the process began to serve.
static STARTED: LazyLock<SystemTime> = LazyLock::new(clock::of_system);

/// Remembers when the process began.
pub fn begin() {
    LazyLock::force(&STARTED);
}

pub(super) fn write(page: &mut MetricsPage<'_, '_>) -> fmt::Result {
    page.counter(
        "process_cpu_seconds",
        "Processor time that the process has used, in user and kernel mode",
        |family| family.count_time(&[], processor_time()),
    )?;
    page.gauge("process_start_time_seconds", "When the process began, in Unix time", |family| {
        family.measure(&[], STARTED.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())
    })?;
    if let Some((virtual_bytes, resident_bytes)) = memory() {
        page.gauge("process_resident_memory_bytes", "Memory of the process that is in RAM", |family| {
            family.value(&[], resident_bytes)
        })?;
        page.gauge("process_virtual_memory_bytes", "Address space of the process, in use or not", |family| {
            family.value(&[], virtual_bytes)
        })?;
    }
    if let Some(bytes) = written_bytes() {
        let help = "Bytes that the process has sent to the disk, those of the file system not included";
        page.counter("process_disk_written_bytes", help, |family| family.count(&[], bytes))?;
    }
    if let Some(open) = open_files() {
        page.gauge("process_open_fds", "File descriptors in use: connections, files, pipes", |family| {
            family.value(&[], open)
        })?;
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        let help = "File descriptors that the process may have; without a free one no connection is accepted";
        page.gauge("process_max_fds", help, |family| family.value(&[], most))?;
    }
    Ok(())
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Virtual and resident memory in bytes, on systems with `/proc`.
fn memory() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').map_while(|pages| pages.parse::<u64>().ok());
    let page_bytes = rustix::param::page_size() as u64;
    Some((pages.next()? * page_bytes, pages.next()? * page_bytes))
}

/// Bytes sent to the disk, on systems with `/proc`.
fn written_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok())
}

/// Open file descriptors, without the one that is opened to count them.
fn open_files() -> Option<u64> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    Some((entries.count() as u64).saturating_sub(1))
}
