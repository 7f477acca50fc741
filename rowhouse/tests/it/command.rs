//! Running the command.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A folder in which the command runs, so that its state file is found again.
pub(crate) struct Folder(tempfile::TempDir);

/// What the command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// The state file of a subcommand in it, while it may be at work: beside it may be the one that is about to replace it.
    pub(crate) fn state(&self, subcommand: &str) -> Option<PathBuf> {
        self.states(subcommand).into_iter().find(|path| path.extension().unwrap() == "json")
    }

    /// The state files of a subcommand in it.
    pub(crate) fn states(&self, subcommand: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.0.path()).unwrap().map(|file| file.unwrap().path());
        let prefix = format!("rowhouse-{subcommand}-");
        let is_state = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix);
        files.filter(|path| is_state(path)).collect()
    }

    pub(crate) fn command(&self, subcommand: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
        command.env_clear().envs(environment.iter().copied()).current_dir(self.0.path());
        command.arg(subcommand).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a copy.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command("copy", arguments, &[]).spawn().unwrap()
    }

    /// Runs a subcommand to its end.
    pub(crate) fn run(&self, subcommand: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
        ended(self.command(subcommand, arguments, environment).spawn().unwrap())
    }

    /// Runs a copy to its end.
    pub(crate) fn copy(&self, arguments: &[&str]) -> Ran {
        self.run("copy", arguments, &[])
    }

    /// Runs a copy that must succeed and find both sides equal, and leave no state behind.
    pub(crate) fn copied(&self, arguments: &[&str]) -> Ran {
        let ran = self.copy(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        assert!(ran.stdout.contains("both sides are equal"), "{arguments:?}: {ran:?}");
        assert_eq!(self.states("copy"), Vec::<PathBuf>::new());
        ran
    }

    /// Runs a copy that must fail; answers what it says.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let ran = self.copy(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        ran.stderr
    }
}

/// Waits for the end of a command.
pub(crate) fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Tells a command to stop, as Ctrl-C does, and waits for its end.
pub(crate) fn stopped(child: Child) -> Ran {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    ended(child)
}

/// The endpoint of the development account on a server.
pub(crate) fn endpoint(address: &str) -> String {
    format!("http://{address}/devstoreaccount1")
}
