//! A PostgreSQL server and a Citus cluster for tests. Both stop when the test binary exits. The tests of a binary share
//! one of each; each test has its own database.

mod citus;

pub use citus::{CitusCluster, WITH_CITUS};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
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

/// Runs a script of the repository. The words of the first line that the script writes signal that it is ready. The
/// script exits when its standard input is closed. Returns `None` if the database is not installed.
///
/// With a folder of clocks, the clock of each node is shifted: the folder contains the library `clock.so`, and for each
/// node a file with its offset (`data` and `standby`, or `node0` and so on for Citus).
fn script(
    name: &str,
    arguments: &[&str],
    clocks: Option<&Path>,
) -> Option<(Child, BufReader<ChildStdout>, Vec<String>)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name);
    let mut command = Command::new(script);
    command.args(arguments).envs(clocks.map(|folder| ("DATABASE_CLOCKS", folder)));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    if line.is_empty() {
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(MISSING), "{name}: {status}");
        return None;
    }
    Some((child, answers, line.split_whitespace().map(str::to_owned).collect()))
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
        let Some((mut script, _, words)) = script("postgres.sh", arguments, clocks) else {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "PostgreSQL is not installed");
            eprintln!("SKIPPED: PostgreSQL is not installed (on Debian: apt-get install postgresql)");
            return None;
        };
        let [url, programs, _process, standby @ ..] = words.as_slice() else { panic!("{words:?}") };
        let (url, programs, standby) = (url.clone(), programs.clone(), standby.first().cloned());
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
        kill_family(&self.process("postgres"));
    }

    /// Pauses all processes of the server until the returned value is dropped, so that the server accepts connections
    /// but does not respond.
    pub fn freeze(&self) -> FrozenServer {
        freeze_family(&self.process("postgres"))
    }

    /// Like [`Self::freeze`], but for the standby.
    pub fn freeze_standby(&self) -> FrozenServer {
        freeze_family(&self.process(self.standby()))
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
        load_file(&self.programs, url, file);
    }

    /// Runs statements in a database, given by its name or URL, and returns their output.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        let (server, _) = self.url.rsplit_once('/').unwrap();
        let url = if database.contains('/') { database.to_owned() } else { format!("{server}/{database}") };
        run_sql(&self.programs, &url, statements)
    }
}

/// A server whose processes are paused. Dropping this value resumes them.
#[derive(Debug)]
pub struct FrozenServer(Vec<String>);

impl Drop for FrozenServer {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

/// Kills a server process and all its children together.
fn kill_family(server: &str) {
    signal_family("-9", server);
}

fn freeze_family(server: &str) -> FrozenServer {
    FrozenServer(signal_family("-STOP", server))
}

/// Sends a signal to a server process first, so that it cannot start more children, and then to its children. Returns
/// the IDs of all these processes.
fn signal_family(name: &str, server: &str) -> Vec<String> {
    let mut family = vec![server.to_owned()];
    // The children of a dead process get a new parent, so they are looked up before and after.
    let known = children(server);
    signal(name, &family);
    family.extend(children(server));
    family.extend(known);
    family.sort_unstable();
    family.dedup();
    signal(name, &family);
    family
}

fn children(parent: &str) -> Vec<String> {
    let output = Command::new("ps").args(["-A", "-o", "pid=,ppid="]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pairs = String::from_utf8(output.stdout).unwrap();
    let pairs = pairs.lines().filter_map(|line| line.trim().split_once(' '));
    pairs.filter(|(_, of)| of.trim() == parent).map(|(process, _)| process.to_owned()).collect()
}

fn signal(name: &str, processes: &[String]) {
    Command::new("kill").arg(name).args(processes).stderr(Stdio::null()).status().unwrap();
}

fn run_sql(programs: &str, url: &str, statements: &str) -> String {
    try_run_sql(programs, url, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
}

fn try_run_sql(programs: &str, url: &str, statements: &str) -> Result<String, String> {
    let mut psql = Command::new(format!("{programs}/psql"));
    psql.args(["--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statements, url]).stdin(Stdio::null());
    let output = psql.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn load_file(programs: &str, url: &str, file: &Path) {
    let mut psql = Command::new(format!("{programs}/psql"));
    psql.args(["--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", "-f"]).arg(file).arg(url).stdin(Stdio::null());
    let output = psql.output().unwrap();
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
}
