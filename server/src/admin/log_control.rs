//! Changes to the log filter while the server runs.

use parking_lot::Mutex;
use std::fmt;
use tracing::info;

/// The current log filter, and the means to replace it.
pub struct LogControl {
    /// The filter with which the program was started.
    start: String,
    current: Mutex<String>,
    replace: ReplaceFilter,
}

/// Makes a filter take effect, or returns an error that quotes the invalid filter.
type ReplaceFilter = Box<dyn Fn(&str) -> anyhow::Result<()> + Send + Sync>;

impl fmt::Debug for LogControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogControl").field("start", &self.start).finish_non_exhaustive()
    }
}

impl LogControl {
    /// Creates the control of a log that was started with the filter `start`. `replace` makes another filter take
    /// effect.
    pub fn new(start: &str, replace: impl Fn(&str) -> anyhow::Result<()> + Send + Sync + 'static) -> Self {
        Self { start: start.to_owned(), current: Mutex::new(start.to_owned()), replace: Box::new(replace) }
    }

    /// Creates a control without a log, for tests.
    #[cfg(test)]
    pub(crate) fn disabled() -> Self {
        Self::new("", |_| Ok(()))
    }

    pub(crate) fn current(&self) -> String {
        self.current.lock().clone()
    }

    /// Applies a filter, or the initial filter if `levels` is empty. Returns the new filter.
    pub(crate) fn change(&self, levels: &str) -> anyhow::Result<String> {
        let levels = if levels.trim().is_empty() { &self.start } else { levels.trim() };
        let mut current = self.current.lock();
        (self.replace)(levels)?;
        info!(from = *current, to = levels, "the log filter was changed");
        levels.clone_into(&mut current);
        Ok(levels.to_owned())
    }
}
