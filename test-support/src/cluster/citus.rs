//! A cluster of Citus for tests: a coordinator and workers. Its tests take long, so they run if the environment asks for them
//! (`scripts/test.sh --with-citus`).

use super::processes::{self, Frozen};
use super::{MISSING, script};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// The variable that asks for the tests on Citus, with the value `1`.
pub const WITH_CITUS: &str = "WITH_CITUS";

/// A running cluster, whose nodes are numbered; the coordinator is 0. It ends when the test binary ends, even if that crashes.
#[derive(Debug)]
pub struct CitusCluster {
    /// Where the programs of PostgreSQL are.
    programs: String,
    /// The number of workers that a new database has.
    workers: usize,
    nodes: Mutex<Vec<Node>>,
    databases: AtomicU32,
    /// Commands for the script and its answers. It ends when its standard input is closed.
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    _script: Child,
}

/// A server of the cluster.
#[derive(Debug, Clone)]
struct Node {
    /// Host and port.
    address: String,
    /// The id of the server process.
    process: String,
}

impl Node {
    /// Reads a node as the script writes it.
    fn parse(word: &str) -> Self {
        let (address, process) = word.trim().split_once('=').unwrap_or_else(|| panic!("the script says '{word}'"));
        Self { address: address.to_owned(), process: process.to_owned() }
    }
}

impl CitusCluster {
    /// The cluster that the tests of a binary share, with two workers. `None` under the conditions of [`Self::start`].
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<CitusCluster>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(2)).as_ref()
    }

    /// A cluster of its own, for a test that stops or changes it. `None` if the environment does not ask for these tests or Citus
    /// is not installed, which is printed.
    #[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub fn start(workers: usize) -> Option<Self> {
        if std::env::var(WITH_CITUS).as_deref() != Ok("1") {
            eprintln!("SKIPPED, because tests on Citus run only with {WITH_CITUS}=1 (scripts/test.sh --with-citus)");
            return None;
        }
        let mut child = script("citus.sh", &[&workers.to_string()]);
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        let words = line.split_whitespace().collect::<Vec<_>>();
        let [_url, programs, nodes @ ..] = words.as_slice() else {
            let status = child.wait().unwrap();
            assert_eq!(status.code(), Some(MISSING), "the cluster does not start");
            eprintln!("SKIPPED, because there is no PostgreSQL with the extension Citus");
            return None;
        };
        let nodes = nodes.iter().map(|word| Node::parse(word)).collect();
        let (programs, commands) = ((*programs).to_owned(), child.stdin.take().unwrap());
        let (nodes, pipes) = (Mutex::new(nodes), Mutex::new((commands, answers)));
        Some(Self { programs, workers, nodes, databases: AtomicU32::new(0), pipes, _script: child })
    }

    /// Sends a command to the script, and returns its answer.
    fn command(&self, command: &str) -> String {
        let mut pipes = self.pipes.lock().unwrap();
        let (commands, answers) = &mut *pipes;
        writeln!(commands, "{command}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "the script cannot do '{command}'");
        answer
    }

    /// Creates an empty database on the coordinator and the workers that the cluster began with, and returns its name.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.command(&format!("database {name}"));
        name
    }

    fn node(&self, number: usize) -> Node {
        self.nodes.lock().unwrap()[number].clone()
    }

    /// The port of a node, on the host 127.0.0.1.
    pub fn port(&self, node: usize) -> String {
        self.node(node).address.rsplit_once(':').unwrap().1.to_owned()
    }

    /// The address of a database on one node.
    pub fn url_of(&self, node: usize, database: &str) -> String {
        format!("postgres://rowhouse@{}/{database}", self.node(node).address)
    }

    /// The address of a database on the coordinator.
    pub fn coordinator(&self, database: &str) -> String {
        self.url_of(0, database)
    }

    /// The address of a database on the workers that the cluster began with, for a server that uses all of them.
    pub fn workers(&self, database: &str) -> String {
        self.url_of_several(&(1..=self.workers).collect::<Vec<_>>(), database)
    }

    /// The address of a database on the coordinator and these workers, for a server that uses all of them.
    pub fn all(&self, database: &str) -> String {
        self.url_of_several(&(0..=self.workers).collect::<Vec<_>>(), database)
    }

    /// The address of a database on some nodes, for a server that uses all of them.
    pub fn url_of_several(&self, nodes: &[usize], database: &str) -> String {
        let addresses = nodes.iter().map(|&node| self.node(node).address).collect::<Vec<_>>();
        format!("postgres://rowhouse@{}/{database}?load_balance_hosts=random", addresses.join(","))
    }

    /// Runs statements in a database on one node, and returns what they print.
    pub fn sql(&self, node: usize, database: &str, statements: &str) -> String {
        processes::sql(&self.programs, &self.url_of(node, database), statements)
    }

    /// Runs the statements of a file in a database on the coordinator.
    pub fn load(&self, database: &str, file: &Path) {
        processes::load(&self.programs, &self.coordinator(database), file);
    }

    /// Kills every process of a node at once, as a loss of its machine would. It stays dead until [`Self::restart`].
    pub fn kill(&self, node: usize) {
        processes::kill(&self.node(node).process);
    }

    /// Starts a node again after it was killed, and waits until it answers.
    pub fn restart(&self, node: usize) {
        let started = Node::parse(&self.command(&format!("start {node}")));
        self.nodes.lock().unwrap()[node] = started;
    }

    /// Stops every process of a node, so that it takes connections and does not answer, until the value is dropped.
    pub fn freeze(&self, node: usize) -> Frozen {
        processes::freeze(&self.node(node).process)
    }

    /// Starts one more worker, makes it a part of a database, where it has no shards so far, and returns its number.
    pub fn add_worker(&self, database: &str) -> usize {
        let added = Node::parse(&self.command("add"));
        let number = {
            let mut nodes = self.nodes.lock().unwrap();
            nodes.push(added);
            nodes.len() - 1
        };
        self.command(&format!("join {database} {number}"));
        number
    }
}
