//! Runs commands of the program to completion, in a separate folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A folder in which commands run. Later commands find the state files of earlier ones there.
#[derive(Debug)]
pub struct Folder {
    /// The path of the program.
    program: &'static str,
    folder: tempfile::TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandResult {
    /// The exit code; `None` if a signal terminated the command.
    pub code: Option<i32>,
    /// The standard output.
    pub stdout: String,
    /// The standard error output.
    pub stderr: String,
}

/// Compiles a C file into a library that can be preloaded into a program, and returns its path.
pub fn compile_library(source: &Path, into: &Path) -> PathBuf {
    let library = into.join(source.with_extension("so").file_name().unwrap());
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    assert!(compiler.arg("-ldl").status().unwrap().success(), "this test requires a C compiler");
    library
}

impl Folder {
    pub(crate) fn new(program: &'static str) -> Self {
        Self { program, folder: tempfile::tempdir().unwrap() }
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns the state file of a subcommand. If the subcommand is still running, a new version of the file may exist
    /// under a different name.
    pub fn state(&self, subcommand: &str) -> Option<PathBuf> {
        self.states(subcommand).into_iter().find(|path| path.extension().unwrap() == "json")
    }

    /// Returns all state files of a subcommand.
    pub fn states(&self, subcommand: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
        let prefix = format!("rowhouse-{subcommand}-");
        let is_state = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix);
        files.filter(|path| is_state(path)).collect()
    }

    /// Creates a subcommand with the given arguments and only the given environment variables.
    pub fn command(&self, subcommand: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(self.program);
        command.env_clear().envs(environment.iter().copied()).current_dir(self.folder.path());
        command.arg(subcommand).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the subcommand `copy`.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command("copy", arguments, &[]).spawn().unwrap()
    }

    /// Runs a subcommand to completion.
    pub fn run(&self, subcommand: &str, arguments: &[&str], environment: &[(&str, &str)]) -> CommandResult {
        wait_for_exit(self.command(subcommand, arguments, environment).spawn().unwrap())
    }

    /// Runs the subcommand `copy` to completion.
    pub fn copy(&self, arguments: &[&str]) -> CommandResult {
        self.run("copy", arguments, &[])
    }

    /// Runs a copy that must succeed, report that both sides are equal, and leave no state file.
    pub fn copy_successfully(&self, arguments: &[&str]) -> CommandResult {
        let ran = self.copy(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        assert!(ran.stdout.contains("both sides are equal"), "{arguments:?}: {ran:?}");
        assert_eq!(self.states("copy"), Vec::<PathBuf>::new());
        ran
    }

    /// Runs a copy that must fail, and returns its error message.
    pub fn copy_error(&self, arguments: &[&str]) -> String {
        let ran = self.copy(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        ran.stderr
    }
}

/// Waits for a command to exit.
pub fn wait_for_exit(child: Child) -> CommandResult {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandResult { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Interrupts a command, as Ctrl-C does, and waits for it to exit.
pub fn interrupt_and_wait(child: Child) -> CommandResult {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    wait_for_exit(child)
}

/// Returns the endpoint of the development account on a server.
pub fn endpoint(address: &str) -> String {
    format!("http://{address}/devstoreaccount1")
}
