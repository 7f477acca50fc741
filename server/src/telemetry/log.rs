//! The log on standard error or in a file: its format, its filter, and changes to the filter while the server runs.

pub use super::log_lines::LogFormat;
use super::log_lines::LogLines;
use anyhow::{Context, anyhow, ensure};
use std::fmt;
use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::info;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The levels of libraries: only warnings and errors, unless the filter requests more.
const LIBRARIES: &str = "fjall=warn,lsm_tree=warn,tokio_postgres=warn,deadpool=error";

/// The current log filter, and the means to replace it.
pub struct LogControl {
    start: String,
    current: Mutex<String>,
    reload: Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send + Sync>,
}

impl fmt::Debug for LogControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogControl").field("start", &self.start).finish_non_exhaustive()
    }
}

/// Starts the log on standard error, or appends to a file. Must be called at most once in a process.
pub fn start(format: LogFormat, levels: &str, file: Option<&Path>) -> anyhow::Result<LogControl> {
    let file = match file {
        None => None,
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            Some(Arc::new(file.with_context(|| format!("opening the log file {}", path.display()))?))
        }
    };
    let is_coloured = format == LogFormat::Text && file.is_none() && std::io::stderr().is_terminal();
    let lines = LogLines { format, is_coloured, file };
    let log = tracing_subscriber::fmt().with_env_filter(filter(levels)?).with_writer(lines);
    let reload: Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send + Sync> = match format {
        LogFormat::Text => {
            let log = log.with_ansi(is_coloured).with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Box::new(move |filter| handle.reload(filter).context("changing the log filter"))
        }
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Box::new(move |filter| handle.reload(filter).context("changing the log filter"))
        }
    };
    Ok(LogControl { start: levels.to_owned(), current: Mutex::new(levels.to_owned()), reload })
}

impl LogControl {
    #[cfg(test)]
    pub(crate) fn disabled() -> Self {
        Self { start: String::new(), current: Mutex::default(), reload: Box::new(|_| Ok(())) }
    }

    pub(crate) fn current(&self) -> String {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Applies a filter, or the initial filter if `levels` is empty. Returns the new filter.
    pub(crate) fn change(&self, levels: &str) -> anyhow::Result<String> {
        let levels = if levels.trim().is_empty() { &self.start } else { levels.trim() };
        let filter = filter(levels)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        (self.reload)(filter)?;
        info!(from = *current, to = levels, "the log filter was changed");
        levels.clone_into(&mut current);
        Ok(levels.to_owned())
    }
}

fn filter(levels: &str) -> anyhow::Result<EnvFilter> {
    const FORM: &str = "is not a log filter such as info, debug or info,store=debug";
    let mut directives: Vec<&str> = vec![levels];
    // A span description may contain commas.
    if !levels.contains('[') {
        directives = levels.split(',').map(str::trim).collect();
        // The library interprets a word that is not a level as the name of a component. It then shows all events of
        // that component, and no others.
        for word in directives.iter().filter(|word| !word.contains('=')) {
            let is_level = !word.is_empty() && word.parse::<LevelFilter>().is_ok();
            ensure!(is_level, "'{levels}' {FORM}: '{word}' is not one of off, error, warn, info, debug and trace");
        }
    }
    let directives: Vec<String> = directives.into_iter().map(with_crate_names).collect();
    EnvFilter::try_new(format!("{LIBRARIES},{}", directives.join(",")))
        .map_err(|error| anyhow!("'{levels}' {FORM}: {error}"))
}

/// Replaces the component name that users know with the crate name. To users, the program is one component, although it
/// consists of several crates. Two components whose crates have longer names have their own short names. All crate
/// names except one begin with `rowhouse`.
fn with_crate_names(directive: &str) -> String {
    let directive = directive.trim();
    match directive.split_once(['=', ':']) {
        Some(("server" | "store", _)) => format!("rowhouse_{directive}"),
        Some(("rowhouse", level)) if directive.starts_with("rowhouse=") => format!("{directive},tools={level}"),
        _ => directive.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::{Level, enabled, subscriber};
    use tracing_subscriber::layer::SubscriberExt;

    fn debugged(levels: &str) -> [bool; 5] {
        let subscriber = tracing_subscriber::registry().with(filter(levels).unwrap());
        subscriber::with_default(subscriber, || {
            [
                enabled!(target: "rowhouse::access", Level::DEBUG),
                enabled!(target: "rowhouse_server::connection", Level::DEBUG),
                enabled!(target: "rowhouse_store::embedded", Level::DEBUG),
                enabled!(target: "tools", Level::DEBUG),
                enabled!(target: "hyper", Level::DEBUG),
            ]
        })
    }

    #[test]
    fn the_program_is_one_part_of_the_log() {
        assert_eq!(debugged("warn,rowhouse=debug"), [true, true, true, true, false]);
        assert_eq!(debugged("debug"), [true; 5]);
        assert_eq!(debugged("warn"), [false; 5]);
    }

    #[test]
    fn parts_of_the_program_have_names_without_that_of_the_program() {
        assert_eq!(debugged("info, store=debug"), [false, false, true, false, false]);
        assert_eq!(debugged("info,store::embedded=debug"), [false, false, true, false, false]);
        assert_eq!(debugged("info,server=debug,rowhouse::access=warn"), [false, true, false, false, false]);
        assert_eq!(debugged("rowhouse::access=debug"), [true, false, false, false, false]);
    }

    #[test]
    fn filters_are_levels_and_parts_with_levels() {
        for good in ["info", "TRACE", "off", "info,rowhouse::access=debug", "warn, store=debug", "info,[span]=debug"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["", "infoo", "info,", "store", "store=loud", "info,store=debug=x", "info;debug"] {
            let error = filter(bad).unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("info,store=debug"), "{error}");
        }
    }
}
