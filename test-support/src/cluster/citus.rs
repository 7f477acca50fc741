//! A Citus cluster for tests: a coordinator and workers. Tests with it take a long time, so they run only if an
//! environment variable requests them (`cargo xtask test --with-citus`).

use super::{FrozenServer, freeze_family, kill_family, load_file, run_sql, script, try_run_sql};
use crate::eventually;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// The environment variable that enables the tests on Citus if its value is `1`.
pub const WITH_CITUS: &str = "WITH_CITUS";

/// A running cluster with numbered nodes; the coordinator is 0. The cluster stops when the test binary exits, even if
/// the binary crashes.
#[derive(Debug)]
pub struct CitusCluster {
    programs: String,
    workers: usize,
    nodes: Mutex<Vec<Node>>,
    databases: AtomicU32,
    /// The script exits when its standard input is closed.
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    _script: Child,
}

#[derive(Debug, Clone)]
struct Node {
    address: String,
    process: String,
}

impl Node {
    fn parse(word: &str) -> Self {
        let (address, process) = word
            .trim()
            .split_once('=')
            .unwrap_or_else(|| panic!("the script printed '{word}' instead of an address and a process ID"));
        Self { address: address.to_owned(), process: process.to_owned() }
    }
}

impl CitusCluster {
    /// Returns the cluster that the tests of a binary share, with two workers. Returns `None` under the same conditions
    /// as [`Self::start`].
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<CitusCluster>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(2)).as_ref()
    }

    /// Starts a separate cluster, for a test that stops or changes it. Returns `None`, and prints the reason, if the
    /// environment does not enable these tests or Citus is not installed.
    pub fn start(workers: usize) -> Option<Self> {
        Self::start_as(workers, None)
    }

    /// Like [`Self::start`], but with shifted clocks.
    pub fn start_with_clocks(workers: usize, clocks: &Path) -> Option<Self> {
        Self::start_as(workers, Some(clocks))
    }

    #[allow(clippy::print_stderr, reason = "a skipped test prints the reason")]
    fn start_as(workers: usize, clocks: Option<&Path>) -> Option<Self> {
        if std::env::var(WITH_CITUS).as_deref() != Ok("1") {
            eprintln!("SKIPPED: tests on Citus run only with {WITH_CITUS}=1 (cargo xtask test --with-citus)");
            return None;
        }
        let Some((mut child, answers, words)) = script("citus.sh", &[&workers.to_string()], clocks) else {
            eprintln!("SKIPPED: PostgreSQL with the extension Citus is not installed");
            return None;
        };
        let [_url, programs, nodes @ ..] = words.as_slice() else { panic!("{words:?}") };
        let nodes = nodes.iter().map(|word| Node::parse(word)).collect();
        let (programs, commands) = (programs.clone(), child.stdin.take().unwrap());
        let (nodes, pipes) = (Mutex::new(nodes), Mutex::new((commands, answers)));
        Some(Self { programs, workers, nodes, databases: AtomicU32::new(0), pipes, _script: child })
    }

    fn command(&self, command: &str) -> String {
        let mut pipes = self.pipes.lock().unwrap();
        let (commands, answers) = &mut *pipes;
        writeln!(commands, "{command}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "the script failed to execute '{command}'");
        answer
    }

    /// Creates an empty database on the coordinator and the initial workers, and returns its name.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.command(&format!("database {name}"));
        name
    }

    /// Like [`Self::database`], but a table gets the given number of shards when it is distributed, instead of 32. With
    /// fewer, everything that concerns all shards takes less time.
    pub fn database_with_shards(&self, shards: u32) -> String {
        let database = self.database();
        self.sql(0, "postgres", &format!("ALTER DATABASE {database} SET citus.shard_count = {shards}"));
        database
    }

    fn node(&self, number: usize) -> Node {
        self.nodes.lock().unwrap()[number].clone()
    }

    /// Returns the number of nodes, including the coordinator.
    pub fn nodes(&self) -> usize {
        self.nodes.lock().unwrap().len()
    }

    /// Returns the port of a node on the host 127.0.0.1.
    pub fn port(&self, node: usize) -> String {
        self.node(node).address.rsplit_once(':').unwrap().1.to_owned()
    }

    /// Returns the URL of a database on one node.
    pub fn url_of(&self, node: usize, database: &str) -> String {
        format!("postgres://rowhouse@{}/{database}", self.node(node).address)
    }

    /// Returns the URL of a database on the coordinator.
    pub fn coordinator(&self, database: &str) -> String {
        self.url_of(0, database)
    }

    /// Returns the URL of a database on the initial workers, for a server that uses all of them.
    pub fn workers(&self, database: &str) -> String {
        self.url_of_several(&(1..=self.workers).collect::<Vec<_>>(), database)
    }

    /// Returns the URL of a database on the coordinator and the initial workers, for a server that uses all of them.
    pub fn all(&self, database: &str) -> String {
        self.url_of_several(&(0..=self.workers).collect::<Vec<_>>(), database)
    }

    /// Returns the URL of a database on several nodes, for a server that uses all of them.
    pub fn url_of_several(&self, nodes: &[usize], database: &str) -> String {
        let addresses = nodes.iter().map(|&node| self.node(node).address).collect::<Vec<_>>();
        format!("postgres://rowhouse@{}/{database}?load_balance_hosts=random", addresses.join(","))
    }

    /// Runs statements in a database on one node, and returns their output.
    pub fn sql(&self, node: usize, database: &str, statements: &str) -> String {
        run_sql(&self.programs, &self.url_of(node, database), statements)
    }

    /// Like [`Self::sql`], but returns the message of an error.
    pub fn try_sql(&self, node: usize, database: &str, statements: &str) -> Result<String, String> {
        try_run_sql(&self.programs, &self.url_of(node, database), statements)
    }

    /// Runs the statements of a file in a database on the coordinator.
    pub fn load(&self, database: &str, file: &Path) {
        load_file(&self.programs, &self.coordinator(database), file);
    }

    /// Kills all processes of a node together, as if its machine were lost. The node stays down until
    /// [`Self::restart`].
    pub fn kill(&self, node: usize) {
        kill_family(&self.node(node).process);
    }

    /// Restarts a node after it was killed, and waits until it responds.
    pub fn restart(&self, node: usize) {
        let started = Node::parse(&self.command(&format!("start {node}")));
        self.nodes.lock().unwrap()[node] = started;
    }

    /// Pauses all processes of a node until the returned value is dropped, so that the node accepts connections but
    /// does not respond.
    pub fn freeze(&self, node: usize) -> FrozenServer {
        freeze_family(&self.node(node).process)
    }

    /// Starts another node, which belongs to no database yet, and returns its number.
    pub fn add_node(&self) -> usize {
        let added = Node::parse(&self.command("add"));
        let mut nodes = self.nodes.lock().unwrap();
        nodes.push(added);
        nodes.len() - 1
    }

    /// Starts another worker, adds it to a database (initially without shards), and returns its number.
    pub fn add_worker(&self, database: &str) -> usize {
        let number = self.add_node();
        self.command(&format!("join {database} {number}"));
        number
    }

    /// Waits until the server that decodes the change log of a database has seen where the shards are. If a shard
    /// moved twice before that, the order of its changes would be unknown.
    pub fn wait_until_change_log_has_placements(&self, database: &str) {
        let placements = "SELECT string_agg(p.groupid || ':' || p.placementid, ' ' ORDER BY s.shardminvalue::integer) \
             FROM pg_dist_shard AS s JOIN pg_dist_placement AS p USING (shardid) \
             WHERE s.logicalrelid = 'rowhouse_entities'::regclass";
        let stored = "SELECT regexp_replace(substring(placements FROM position(' ' IN placements) + 1), \
             '-?\\d+:-?\\d+:(\\d+:\\d+)', '\\1', 'g') FROM rowhouse_change_log";
        let sql = |statement: &str| self.sql(0, database, statement);
        eventually("the placements in the change log", || (sql(placements) == sql(stored)).then_some(()));
    }

    /// Returns the folder with the programs of PostgreSQL.
    pub fn programs(&self) -> &str {
        &self.programs
    }

    /// Returns the folder that contains the nodes' data folders: `node0` and so on.
    pub fn folder(&self) -> PathBuf {
        let data = self.sql(0, "postgres", "SHOW data_directory");
        Path::new(data.trim()).parent().unwrap().to_owned()
    }
}
