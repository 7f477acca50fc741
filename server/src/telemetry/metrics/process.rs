//! Metrics of the process, under the names that are usual in Prometheus.

use super::metrics_page::MetricsPage;
use crate::clock;
use platform::process;
use std::fmt;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

static STARTED: LazyLock<SystemTime> = LazyLock::new(clock::system_time);

/// Records the start time of the process.
pub fn begin() {
    LazyLock::force(&STARTED);
}

pub(super) fn write(page: &mut MetricsPage<'_, '_>) -> fmt::Result {
    if let Some(time) = process::processor_time() {
        let help = "Processor time that the process has used, in user and kernel mode";
        page.counters("process_cpu_seconds", help, |family| family.count_seconds(&[], time))?;
    }
    page.gauges("process_start_time_seconds", "Start time of the process, in Unix time", |family| {
        family.gauge_f64(&[], STARTED.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())
    })?;
    if let Some((virtual_bytes, resident_bytes)) = process::memory() {
        page.gauge("process_resident_memory_bytes", "Resident memory of the process", resident_bytes)?;
        page.gauge("process_virtual_memory_bytes", "Virtual memory of the process, in use or not", virtual_bytes)?;
    }
    if let Some(bytes) = process::written_bytes() {
        let help = "Bytes that the process has written to the disk, excluding writes by the file system itself";
        page.counter("process_disk_written_bytes", help, bytes)?;
    }
    if let Some(open) = process::open_files() {
        page.gauge("process_open_fds", "File descriptors in use: connections, files, pipes", open)?;
    }
    if let Some(most) = process::open_files_limit().current {
        let help = "Maximum number of open file descriptors; without a free one, no connection is accepted";
        page.gauge("process_max_fds", help, most)?;
    }
    Ok(())
}
