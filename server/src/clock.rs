//! The only module of the crate that reads the time. Instants come from here; the time of day comes from the clock in
//! the settings ([`model::Clock`]).
//!
//! The time of day determines Timestamps, the validity of credentials, and analytics, and appears in responses. A
//! request reads it once. A program that gives the settings and the engine the same clock can move the time of the
//! whole server.
//!
//! Instants measure durations: time limits, throttling and pauses. They come from the runtime, so a test that pauses
//! the runtime's clock pauses all of these timers. Functions that depend on time take it as an argument where that is
//! simple.

use std::time::{Duration, Instant, SystemTime};

/// Returns the operating system's time of day. It belongs to the process, not to the service.
pub(crate) fn system_time() -> SystemTime {
    SystemTime::now()
}

/// Returns the time of day by which clients date their requests, even if a test has moved the clock in the settings.
pub(crate) fn client_time() -> SystemTime {
    SystemTime::now()
}

pub(crate) fn instant() -> Instant {
    tokio::time::Instant::now().into_std()
}

pub(crate) fn elapsed_since(earlier: Instant) -> Duration {
    instant().saturating_duration_since(earlier)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { files(&path, found) } else { found.push(path) }
        }
    }

    #[test]
    fn no_other_module_reads_time() {
        let mut found = Vec::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        for path in found.iter().filter(|path| !path.ends_with("clock.rs") && !path.ends_with("tests.rs")) {
            let text = fs::read_to_string(path).unwrap();
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for call in ["Instant::now", "SystemTime::now", ".elapsed()"] {
                assert!(!product.contains(call), "{} calls {call} instead of crate::clock", path.display());
            }
            let may_read_system = path.ends_with("process.rs");
            assert!(
                may_read_system || !product.contains("clock::system_time"),
                "{} reads the system time",
                path.display()
            );
        }
    }
}
