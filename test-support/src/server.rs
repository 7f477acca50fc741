//! The built program, and the server as a process.

use crate::client::{Account, Client};
use crate::{TIMEOUT, command};
use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// The built program. Cargo provides its path only to the integration tests of the same package.
#[derive(Debug, Clone, Copy)]
pub struct Program(&'static str);

impl Program {
    /// Wraps the path of the program: `env!("CARGO_BIN_EXE_rowhouse")`.
    pub const fn at(path: &'static str) -> Self {
        Self(path)
    }

    /// Returns the path of the program.
    pub fn path(self) -> &'static str {
        self.0
    }

    /// Creates a command that runs the program with the given arguments, without the environment variables that the
    /// program reads.
    pub fn command(self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.0);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROWHOUSE_")) {
            command.env_remove(name);
        }
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Creates the command `rowhouse serve` with the given arguments.
    pub fn serve(self, arguments: &[&str]) -> Command {
        self.command(&[&["serve"], arguments].concat())
    }

    /// Starts a server on a free port unless `--listen` is given, and waits until it is ready.
    pub fn start(self, arguments: &[&str]) -> Server {
        self.start_with(arguments, |_| ())
    }

    /// Like [`Self::start`], but modifies the command first.
    pub fn start_with(self, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Server {
        let listen: &[&str] = if arguments.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let mut command = self.serve(&[listen, arguments].concat());
        change(&mut command);
        Server::spawn(&mut command, arguments.contains(&"--admin") || arguments.contains(&"--test-controls"))
    }

    /// Starts `rowhouse standby` on a free port, and waits until it is ready.
    pub fn start_standby(self, arguments: &[&str]) -> Server {
        self.start_standby_with(arguments, |_| ())
    }

    /// Like [`Self::start_standby`], but modifies the command first.
    pub fn start_standby_with(self, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Server {
        let mut command = self.command(&[&["standby", "--listen", "127.0.0.1:0"], arguments].concat());
        change(&mut command);
        Server::spawn(&mut command, arguments.contains(&"--admin"))
    }

    /// Creates a folder in which the program runs.
    pub fn folder(self) -> command::Folder {
        command::Folder::new(self.0)
    }
}

/// A running server. Dropping it kills the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The address and port.
    pub address: String,
    /// The address and port of the admin listener; empty without `--admin` and `--test-controls`.
    pub admin: String,
    log: Receiver<String>,
    /// The lines that were received so far.
    seen: RefCell<Vec<String>>,
    /// Kept open so that the server can continue writing to its standard output.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a command that runs a server, and waits until the server is ready. Its output must be piped.
    pub fn spawn(command: &mut Command, has_admin: bool) -> Self {
        let mut child = command.spawn().unwrap();
        let (sender, log) = channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut ready = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut ready).unwrap();
        let address = ready.trim().strip_prefix("listening on ").and_then(|endpoint| endpoint.split_once("://"));
        let Some((_, address)) = address else {
            panic!("the server did not start: {} {:?}", child.wait().unwrap(), log.iter().collect::<Vec<_>>());
        };
        let mut lines = String::new();
        stdout.read_line(&mut lines).unwrap();
        assert!(lines.starts_with("connection string: "), "{lines}");
        if has_admin {
            stdout.read_line(&mut lines).unwrap();
        }
        let address = address.to_owned();
        let admin = lines.lines().find_map(|line| line.strip_prefix("admin on http://")).unwrap_or_default().to_owned();
        Self { child, address, admin, log, seen: RefCell::default(), _stdout: stdout }
    }

    /// Opens a separate connection as the development account.
    pub fn client(&self) -> Client {
        Client::connect(&self.address).unwrap()
    }

    /// Opens a connection as the given account.
    pub fn client_of(&self, account: &Account) -> Client {
        Client::connect_as(&self.address, account).unwrap()
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Takes the writing end of standard input, for a server started with a pipe there.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for a line of the log that contains the given text, and returns it.
    pub fn wait_for_log(&self, text: &str) -> String {
        loop {
            let line = self.see(self.log.recv_timeout(TIMEOUT).unwrap());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Returns the lines logged since the last call.
    pub fn new_log(&self) -> Vec<String> {
        self.log.try_iter().map(|line| self.see(line)).collect()
    }

    fn see(&self, line: String) -> String {
        self.seen.borrow_mut().push(line.clone());
        line
    }

    /// Returns everything that was logged so far.
    pub fn log(&self) -> String {
        self.new_log();
        self.seen.borrow().join("\n")
    }

    /// Kills the process, to simulate a crash, and returns the rest of its log.
    pub fn kill9(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log.iter().collect()
    }

    /// Tells the server to stop, and returns its exit status and the rest of its log.
    pub fn stop(self) -> (ExitStatus, Vec<String>) {
        self.signal("TERM");
        self.wait()
    }

    /// Stops the server, which must succeed and must not have panicked. Returns the rest of its log.
    pub fn stop_cleanly(self) -> Vec<String> {
        let (status, log) = self.stop();
        assert!(status.success() && !log.iter().any(|line| line.contains("panicked")), "{status}: {log:#?}");
        log
    }

    /// Waits for a server that was told to stop, and returns its exit status and the rest of its log.
    pub fn wait(mut self) -> (ExitStatus, Vec<String>) {
        let mut log = Vec::new();
        while let Ok(line) = self.log.recv_timeout(TIMEOUT) {
            log.push(line);
        }
        (self.child.wait().unwrap(), log)
    }
}

impl Drop for Server {
    #[allow(clippy::print_stdout, reason = "a failed test prints what explains it")]
    fn drop(&mut self) {
        // The process may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            println!("the log of the server at {}, as far as no test has read it:", self.address);
            self.log.try_iter().for_each(|line| println!("{line}"));
        }
    }
}
