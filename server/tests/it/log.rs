//! The logs of the servers in this process. A server runs in its own thread, which identifies its log.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{self, Write};
use std::panic;
use std::sync::Once;
use std::thread::{self, ThreadId};
use tracing_subscriber::EnvFilter;

static LOGS: Mutex<Option<HashMap<ThreadId, String>>> = Mutex::new(None);

/// Begins to record what threads log, and that they panic. Only the first call has an effect.
pub(crate) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        let filter = EnvFilter::new("info,rowhouse::quota=debug");
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(|| Writer).init();
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let _written = writeln!(Writer, "ERROR panicked: {panic}");
            print(panic);
        }));
    });
}

/// Returns what a thread has logged so far.
pub(crate) fn of(thread: ThreadId) -> String {
    LOGS.lock().as_ref().and_then(|logs| logs.get(&thread)).cloned().unwrap_or_default()
}

/// Appends to the log of the current thread.
struct Writer;

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut logs = LOGS.lock();
        let log = logs.get_or_insert_default().entry(thread::current().id()).or_default();
        log.push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
