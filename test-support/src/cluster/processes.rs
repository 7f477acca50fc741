//! Control of the processes of a database server, and execution of statements, for a single server and for the nodes of
//! a cluster.

use std::path::Path;
use std::process::{Command, Stdio};

/// A server whose processes are paused. Dropping this value resumes them.
#[derive(Debug)]
pub struct FrozenServer(Vec<String>);

impl Drop for FrozenServer {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

/// Kills a server process and all its children together.
pub(super) fn kill(server: &str) {
    signal_family("-9", server);
}

pub(super) fn freeze(server: &str) -> FrozenServer {
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

pub(super) fn sql(programs: &str, url: &str, statements: &str) -> String {
    try_sql(programs, url, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
}

pub(super) fn try_sql(programs: &str, url: &str, statements: &str) -> Result<String, String> {
    let mut psql = Command::new(format!("{programs}/psql"));
    psql.args(["--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statements, url]).stdin(Stdio::null());
    let output = psql.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

pub(super) fn load(programs: &str, url: &str, file: &Path) {
    let mut psql = Command::new(format!("{programs}/psql"));
    psql.args(["--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", "-f"]).arg(file).arg(url).stdin(Stdio::null());
    let output = psql.output().unwrap();
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
}
