//! The folders of the workspace, and the environment of every command.

use crate::step::Tool;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Variables that would change what the tests do, apart from those that begin with `ROWHOUSE_`.
const REMOVED_VARIABLES: [&str; 6] =
    ["TABLES_ENDPOINT", "TABLES_ACCOUNT", "TABLES_KEY", "TABLES_SERVER", "TABLES_CONNECTION_STRING", "WITH_CITUS"];

/// Variables of the tests themselves.
const KEPT_VARIABLES: [&str; 4] =
    ["ROWHOUSE_CRASH_ROUNDS", "ROWHOUSE_HISTORY_OPERATIONS", "ROWHOUSE_HISTORY_ROUNDS", "ROWHOUSE_SOAK_SECONDS"];

/// The oldest supported version of Rust.
const OLDEST_RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Variables that `cargo run` sets for this program. Commands that build something must not see them.
const CARGO_VARIABLES: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];

#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
    /// The folder of the current run, with the logs of all steps.
    pub(crate) scratch: PathBuf,
    /// The server, as `cargo test` builds it.
    pub(crate) program: PathBuf,
    /// The oldest supported version of Rust, if the commands have to select it.
    toolchain: Option<&'static str>,
    with_citus: bool,
}

impl Workspace {
    pub(crate) fn new(program: Option<&Path>, with_citus: bool) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has no folder")?.to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path));
        let built = target.join("debug").join(format!("rowhouse{}", std::env::consts::EXE_SUFFIX));
        let program = match program {
            Some(path) => path.canonicalize().with_context(|| format!("the program {}", path.display()))?,
            None => built,
        };
        let toolchain = (!has_rust(OLDEST_RUST, &["rustc"])).then_some(OLDEST_RUST);
        Ok(Self { scratch: target.join("test"), root, target, program, toolchain, with_citus })
    }

    /// Selects the oldest supported version of Rust for all commands, so that a change which needs a later one fails.
    /// Returns a notice if it is not installed, so that the compiler in use tests the change.
    pub(crate) fn select_toolchain(&mut self) -> Option<String> {
        let oldest = self.toolchain.take_if(|_| !has_rust(OLDEST_RUST, &["rustup", "run", OLDEST_RUST, "rustc"]))?;
        Some(format!(
            "the oldest supported version of Rust, {oldest}, is not installed (rustup toolchain install {oldest}), so \
             another version tests the change"
        ))
    }

    /// Returns a command in a folder of the repository, with the environment of all tests.
    pub(crate) fn command(&self, program: &str, folder: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.root.join(folder));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let is_removed = (text.starts_with("ROWHOUSE_") && !KEPT_VARIABLES.contains(&&*text))
                || REMOVED_VARIABLES.contains(&&*text)
                || CARGO_VARIABLES.iter().any(|prefix| text.starts_with(prefix));
            if is_removed {
                command.env_remove(&name);
            }
        }
        command.env("CARGO_TERM_COLOR", "never").env("PYTHONDONTWRITEBYTECODE", "1");
        if let Some(toolchain) = &self.toolchain {
            command.env("RUSTUP_TOOLCHAIN", toolchain);
        }
        if self.with_citus {
            // The tests of the crates read this variable.
            command.env("WITH_CITUS", "1");
        }
        command
    }

    /// Returns a command that runs a line of Bash.
    pub(crate) fn shell(&self, line: &str, folder: &str) -> Command {
        let mut command = self.command("bash", folder);
        command.args(["-euo", "pipefail", "-c", line]);
        command
    }

    pub(crate) fn has(&self, tool: &Tool) -> bool {
        let mut command = self.shell(tool.probe, ".");
        let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    }
}

/// Returns true if a command runs a compiler of a version.
fn has_rust(version: &str, command: &[&str]) -> bool {
    let Some((program, arguments)) = command.split_first() else { return false };
    let output = Command::new(program).args(arguments).arg("--version").stderr(Stdio::null()).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).starts_with(&format!("rustc {version}.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_of_rust_is_not_the_installed_one() {
        assert!(!has_rust("1.2", &["rustc"]) && !has_rust("1.2", &["no-program-has-this-name"]));
    }
}
