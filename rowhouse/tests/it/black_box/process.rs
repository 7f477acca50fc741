//! The server as a process, and its files.

use crate::PROGRAM;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use test_support::TIMEOUT;

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The server's standard output until it was ready.
    pub(crate) announcement: String,
    log: Arc<Mutex<String>>,
}

fn command(arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(PROGRAM.path());
    command.env_clear().envs(environment.iter().copied());
    command.args(["serve", "--in-memory"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Server {
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = command(arguments, environment).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (written, stderr) = (Arc::clone(&log), BufReader::new(child.stderr.take().unwrap()));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *written.lock().unwrap() += &(line + "\n");
            }
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut announcement = String::new();
        while !announcement.contains("connection string") {
            let read = stdout.read_line(&mut announcement).unwrap();
            assert_ne!(read, 0, "the server did not start: {}", log.lock().unwrap());
        }
        let endpoint = announcement.lines().next().unwrap();
        let port = endpoint.rsplit_once(':').unwrap().1.parse().unwrap();
        Self { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), announcement, log }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn wait_for_log(&self, start: usize, text: &str) {
        let begun = Instant::now();
        while !self.log().get(start..).is_some_and(|log| log.contains(text)) {
            assert!(begun.elapsed() < TIMEOUT, "no '{text}' in the log: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub(crate) fn wait(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn refusal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut child = command(arguments, environment).spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > TIMEOUT {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(matches!(status.code(), Some(1 | 2)), "{arguments:?} exited with {status}: {message}");
    assert_eq!(output, "", "nothing must be announced");
    message
}

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Replaces a file atomically, as careful programs do.
    pub(crate) fn replace(&self, name: &str, content: &str) {
        let new: PathBuf = self.write("new", content).into();
        std::fs::rename(new, Path::new(&self.path(name))).unwrap();
    }
}
