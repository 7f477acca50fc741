//! The log on standard error or in a file: its format, its filter, and changes to the filter while the server runs.

mod lines;

use anyhow::{Context, anyhow, ensure};
pub use lines::LogFormat;
use lines::LogLines;
use server::LogControl;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The levels of libraries: only warnings and errors, unless the filter requests more.
const LIBRARIES: &str = "lsm_tree=warn,tokio_postgres=warn,deadpool=error";

/// If this variable is not empty, users want no colors (<https://no-color.org>).
const NO_COLOR: &str = "NO_COLOR";

fn allows_color(no_color: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty)
}

/// Starts the log on standard error, or appends to a file. Must be called at most once in a process.
pub(crate) fn start(format: LogFormat, levels: &str, file: Option<&Path>) -> anyhow::Result<LogControl> {
    let file = match file {
        None => None,
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            Some(Arc::new(file.with_context(|| format!("opening the log file {}", path.display()))?))
        }
    };
    let is_terminal = file.is_none() && std::io::stderr().is_terminal();
    let is_coloured = format == LogFormat::Text && is_terminal && allows_color(std::env::var_os(NO_COLOR).as_deref());
    let lines = LogLines { format, is_coloured, file };
    let log = tracing_subscriber::fmt().with_env_filter(filter(levels)?).with_writer(lines);
    Ok(match format {
        LogFormat::Text => {
            let log = log.with_ansi(is_coloured).with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            LogControl::new(levels, move |levels| handle.reload(filter(levels)?).context("changing the log filter"))
        }
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            LogControl::new(levels, move |levels| handle.reload(filter(levels)?).context("changing the log filter"))
        }
    })
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
/// consists of several crates. Components whose crates have longer names have their own short names: `server`, and
/// `store` or `engine` for all engines, followed by `::embedded` or `::postgres` for one of them. All crate names
/// except one begin with `rowhouse`.
fn with_crate_names(directive: &str) -> String {
    let directive = directive.trim();
    match directive.split_once(['=', ':']) {
        Some(("server", _)) => format!("rowhouse_{directive}"),
        Some((component @ ("store" | "engine"), _)) => {
            let rest = directive.strip_prefix(component).unwrap_or_default();
            // To users, a database on several nodes is one engine.
            if let Some(rest) = rest.strip_prefix("::postgres") {
                return format!("rowhouse_engine_postgres{rest},rowhouse_engine_citus{rest}");
            }
            // A filter applies to all crates whose names begin with the given one.
            let rest = if rest.starts_with("::embedded") { rest.replacen("::", "_", 1) } else { rest.to_owned() };
            format!("rowhouse_engine{rest}")
        }
        Some(("rowhouse", level)) if directive.starts_with("rowhouse=") => format!("{directive},tools={level}"),
        _ => directive.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::{Level, enabled, subscriber};
    use tracing_subscriber::layer::SubscriberExt;

    /// Returns, for each of several crates, whether it logs at the level `debug` under a filter.
    fn debugged(levels: &str) -> [bool; 7] {
        let subscriber = tracing_subscriber::registry().with(filter(levels).unwrap());
        subscriber::with_default(subscriber, || {
            [
                enabled!(target: "rowhouse::access", Level::DEBUG),
                enabled!(target: "rowhouse_server::connection", Level::DEBUG),
                enabled!(target: "rowhouse_engine_embedded::outage", Level::DEBUG),
                enabled!(target: "rowhouse_engine_postgres::purge", Level::DEBUG),
                enabled!(target: "rowhouse_engine_citus::discovery", Level::DEBUG),
                enabled!(target: "tools", Level::DEBUG),
                enabled!(target: "hyper", Level::DEBUG),
            ]
        })
    }

    #[test]
    fn a_variable_disables_colors() {
        assert!(allows_color(None) && allows_color(Some(OsStr::new(""))));
        assert!(!allows_color(Some(OsStr::new("1"))) && !allows_color(Some(OsStr::new("0"))));
    }

    #[test]
    fn the_program_is_one_part_of_the_log() {
        assert_eq!(debugged("warn,rowhouse=debug"), [true, true, true, true, true, true, false]);
        assert_eq!(debugged("debug"), [true; 7]);
        assert_eq!(debugged("warn"), [false; 7]);
    }

    #[test]
    fn parts_of_the_program_have_names_without_that_of_the_program() {
        for component in ["store", "engine"] {
            let of = |rest| debugged(&format!("info, {component}{rest}=debug"));
            assert_eq!(of(""), [false, false, true, true, true, false, false]);
            assert_eq!(of("::embedded"), [false, false, true, false, false, false, false]);
            assert_eq!(of("::embedded::outage"), [false, false, true, false, false, false, false]);
            assert_eq!(of("::postgres"), [false, false, false, true, true, false, false]);
            assert_eq!(of("::postgres::purge"), [false, false, false, true, false, false, false]);
            assert_eq!(of("::postgres::discovery"), [false, false, false, false, true, false, false]);
            assert_eq!(of("::memory"), [false; 7]);
        }
        assert_eq!(
            debugged("info,server=debug,rowhouse::access=warn"),
            [false, true, false, false, false, false, false]
        );
        assert_eq!(debugged("rowhouse::access=debug"), [true, false, false, false, false, false, false]);
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
