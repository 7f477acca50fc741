//! A PostgreSQL server and a Citus cluster for tests. Both stop when the test binary exits. The tests of a binary share
//! one of each; each test has its own database.

mod citus;
mod processes;

pub use citus::{CitusCluster, WITH_CITUS};
pub use processes::FrozenServer;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The exit code of the scripts if PostgreSQL or Citus is not installed.
const MISSING: i32 = 77;

/// A running PostgreSQL server. It stops when the test binary exits, even if the binary crashes.
#[derive(Debug)]
pub struct Cluster {
    url: String,
    programs: String,
    standby: Option<String>,
    databases: AtomicU32,
    /// The script exits when its standard input is closed.
    _stdin: ChildStdin,
    _script: Child,
}

/// An open transaction. Dropping it rolls it back.
#[derive(Debug)]
pub struct OpenTransaction(Child);

impl OpenTransaction {
    /// Commits the transaction.
    pub fn commit(mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"COMMIT;\n").unwrap();
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        // Closing the connection rolls the transaction back.
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}

/// Runs a script of the repository. The first line that the script writes signals that it is ready. The script exits
/// when its standard input is closed.
///
/// With a folder of clocks, the clock of each node is shifted: the folder contains the library `clock.so`, and for each
/// node a file with its offset (`data` and `standby`, or `node0` and so on for Citus).
fn script(name: &str, arguments: &[&str], clocks: Option<&Path>) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name);
    let mut command = Command::new(script);
    command.args(arguments).envs(clocks.map(|folder| ("DATABASE_CLOCKS", folder)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

impl Cluster {
    /// Returns the server that the tests of a binary share. If PostgreSQL is not installed, prints a note and returns
    /// `None`; in CI, fails the test.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// Starts a separate server, for a test that stops or changes it.
    pub fn start() -> Option<Self> {
        Self::start_as(&[], None)
    }

    /// Starts a server with a synchronous standby.
    pub fn start_with_standby() -> Option<Self> {
        Self::start_as(&["--standby"], None)
    }

    /// Starts a server with a synchronous standby and shifted clocks.
    pub fn start_with_standby_and_clocks(clocks: &Path) -> Option<Self> {
        Self::start_as(&["--standby"], Some(clocks))
    }

    /// Starts a separate server with additional settings, which is not restarted if it dies.
    pub fn start_once(settings: &str) -> Option<Self> {
        Self::start_as(&["--once", settings], None)
    }

    #[allow(clippy::print_stderr, reason = "a skipped test prints the reason")]
    fn start_as(arguments: &[&str], clocks: Option<&Path>) -> Option<Self> {
        let mut script = script("postgres.sh", arguments, clocks);
        let mut line = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words = line.split_whitespace().collect::<Vec<_>>();
        let [url, programs, _process, ref standby @ ..] = words[..] else {
            let status = script.wait().unwrap();
            let is_missing = status.code() == Some(MISSING);
            assert!(is_missing && std::env::var("CI").as_deref() != Ok("true"), "PostgreSQL did not start: {status}");
            eprintln!("SKIPPED: PostgreSQL is not installed (on Debian: apt-get install postgresql)");
            return None;
        };
        let (url, programs) = (url.to_owned(), programs.to_owned());
        let standby = standby.first().map(|url| (*url).to_owned());
        let stdin = script.stdin.take().unwrap();
        Some(Self { url, programs, standby, databases: AtomicU32::new(0), _stdin: stdin, _script: script })
    }

    /// Returns the URL of a database, for a client that selects the writable one of the two servers.
    pub fn either(&self, database: &str) -> String {
        let (server, name) = database.rsplit_once('/').unwrap();
        let (_, standby) = self.standby.as_ref().unwrap().rsplit_once('@').unwrap();
        let (standby, _) = standby.rsplit_once('/').unwrap();
        format!("{server},{standby}/{name}?target_session_attrs=read-write")
    }

    /// Returns the URL of the database `postgres` on the standby.
    pub fn standby(&self) -> &str {
        self.standby.as_ref().unwrap()
    }

    /// Promotes the standby to the primary.
    pub fn promote(&self) {
        assert_eq!(self.sql(self.standby(), "SELECT pg_promote()").trim(), "t");
    }

    /// Kills all processes of the server together, as if its machine were lost.
    pub fn kill(&self) {
        processes::kill(&self.process("postgres"));
    }

    /// Pauses all processes of the server until the returned value is dropped, so that the server accepts connections
    /// but does not respond.
    pub fn freeze(&self) -> FrozenServer {
        processes::freeze(&self.process("postgres"))
    }

    /// Like [`Self::freeze`], but for the standby.
    pub fn freeze_standby(&self) -> FrozenServer {
        processes::freeze(&self.process(self.standby()))
    }

    /// Returns the folder with the programs of PostgreSQL.
    pub fn programs(&self) -> &str {
        &self.programs
    }

    /// Returns the folder that contains the server's data folder.
    pub fn folder(&self) -> PathBuf {
        let data = self.sql("postgres", "SHOW data_directory");
        Path::new(data.trim()).parent().unwrap().to_owned()
    }

    /// Returns the ID of a server process, given a database on it. It changes when the server restarts.
    fn process(&self, database: &str) -> String {
        self.sql(database, "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)").trim().to_owned()
    }

    /// Creates an empty database and returns its URL.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        let (server, _) = self.url.rsplit_once('/').unwrap();
        format!("{server}/{name}")
    }

    /// Begins a transaction with a statement, and keeps it open until the returned value is dropped.
    pub fn open_transaction(&self, url: &str, statement: &str) -> OpenTransaction {
        let mut psql = Command::new(format!("{}/psql", self.programs));
        psql.args(["--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = psql.spawn().unwrap();
        let statements = format!("BEGIN; {statement}; SELECT 'open';\n");
        psql.stdin.as_mut().unwrap().write_all(statements.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(psql.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "open", "{statement}");
        OpenTransaction(psql)
    }

    /// Returns the statements that recreate a database.
    pub fn dump(&self, url: &str) -> String {
        let mut dump = Command::new(format!("{}/pg_dump", self.programs));
        let output =
            dump.args(["--no-owner", "--no-privileges", "--inserts", url]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // Omit commands for PostgreSQL's interactive terminal, which are not statements.
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| !line.starts_with('\\')).fold(String::new(), |all, line| all + line + "\n")
    }

    /// Runs the statements of a file in a database.
    pub fn load(&self, url: &str, file: &Path) {
        processes::load(&self.programs, url, file);
    }

    /// Runs statements in a database, given by its name or URL, and returns their output.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        let (server, _) = self.url.rsplit_once('/').unwrap();
        let url = if database.contains('/') { database.to_owned() } else { format!("{server}/{database}") };
        processes::sql(&self.programs, &url, statements)
    }
}
