//! Where the crate reads time: instants here, the time of day from the clock of the settings ([`model::Clock`]).
//!
//! The time of day decides about Timestamps, credentials and analytics, and stands in responses. A request reads it once. A
//! program that gives the settings and the engine one clock moves the time of the whole server with it.
//!
//! Instants measure how long something takes: time limits, throttling and pauses. They are those of the runtime, so a test that
//! pauses the runtime's clock pauses all of them. A function that decides by time takes it as an argument where that is simple.

use std::time::{Duration, Instant, SystemTime};

/// The time of day of the operating system, which is that of the process and not that of the service.
pub(crate) fn of_system() -> SystemTime {
    SystemTime::now()
}

/// The time of day by which clients date their requests, although a test may have moved the clock of the settings.
pub(crate) fn of_clients() -> SystemTime {
    SystemTime::now()
}

/// The present moment, for measuring how long something takes.
pub(crate) fn instant() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// How long ago an instant was.
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
                assert!(!product.contains(call), "{} calls {call} and not crate::clock", path.display());
            }
            let may_read_system = path.ends_with("process.rs");
            assert!(may_read_system || !product.contains("of_system"), "{} ignores the set clock", path.display());
        }
    }
}
