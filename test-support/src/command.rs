//! Running commands of the program to their end, in a folder of their own.

use crate::Program;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A folder in which commands run, so that they find their state files again.
#[derive(Debug)]
pub struct Folder {
    program: Program,
    folder: tempfile::TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Folder {
    pub(crate) fn new(program: Program) -> Self {
        Self { program, folder: tempfile::tempdir().unwrap() }
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The state file of a subcommand that may be running. The next state file may be beside it under another name.
    pub fn state(&self, subcommand: &str) -> Option<PathBuf> {
        self.states(subcommand).into_iter().find(|path| path.extension().unwrap() == "json")
    }

    /// All state files of a subcommand.
    pub fn states(&self, subcommand: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
        let prefix = format!("rowhouse-{subcommand}-");
        let is_state = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix);
        files.filter(|path| is_state(path)).collect()
    }

    /// A subcommand with these arguments and no variables of the environment but these.
    pub fn command(&self, subcommand: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(self.program.path());
        command.env_clear().envs(environment.iter().copied()).current_dir(self.folder.path());
        command.arg(subcommand).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a copy.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command("copy", arguments, &[]).spawn().unwrap()
    }

    /// Runs a subcommand to its end.
    pub fn run(&self, subcommand: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
        ended(self.command(subcommand, arguments, environment).spawn().unwrap())
    }

    /// Runs a copy to its end.
    pub fn copy(&self, arguments: &[&str]) -> Ran {
        self.run("copy", arguments, &[])
    }

    /// Runs a copy that must succeed and find both sides equal, and leave no state file.
    pub fn copied(&self, arguments: &[&str]) -> Ran {
        let ran = self.copy(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        assert!(ran.stdout.contains("both sides are equal"), "{arguments:?}: {ran:?}");
        assert_eq!(self.states("copy"), Vec::<PathBuf>::new());
        ran
    }

    /// Runs a copy that must fail, and returns its message.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let ran = self.copy(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        ran.stderr
    }
}

/// Waits for the end of a command.
pub fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Interrupts a command, as Ctrl-C does, and waits for its end.
pub fn stopped(child: Child) -> Ran {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    ended(child)
}

/// The endpoint of the development account on a server.
pub fn endpoint(address: &str) -> String {
    format!("http://{address}/devstoreaccount1")
}
