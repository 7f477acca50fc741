//! The processor time and memory of a process, from Linux's `/proc`.

use anyhow::Context;
use std::collections::BTreeMap;
use std::time::Duration;

/// The unit in which Linux reports processor time to all programs, whatever the frequency of its timer.
const TICK: Duration = Duration::from_millis(10);

/// A process, possibly this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    id: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// `None` if the node is the whole database, or if its name does not matter.
    pub(crate) name: Option<String>,
    pub(crate) process: Process,
}

impl Node {
    /// Parses `NAME=PID` or `PID`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, id) = text.rsplit_once('=').map_or((None, text), |(name, id)| (Some(name.to_owned()), id));
        let id = id.parse().map_err(|_| "it must be a process ID, or a name, '=' and a process ID".to_owned())?;
        Ok(Self { name, process: Process::new(id) })
    }
}

/// The sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResidentMemory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

impl Process {
    pub(crate) fn new(id: u32) -> Self {
        Self { id }
    }

    pub(crate) fn current() -> Self {
        Self { id: std::process::id() }
    }

    /// Includes the user and system time of all threads.
    pub(crate) fn cpu(self) -> anyhow::Result<Duration> {
        let text = self.read("stat")?;
        let (_, own, _) = parse_stat(&text).with_context(|| format!("/proc/{}/stat has an unknown format", self.id))?;
        Ok(own)
    }

    /// Includes all descendants, for programs with several processes such as PostgreSQL. Also includes exited
    /// descendants for which their parents have waited.
    pub(crate) fn family_cpu(self) -> anyhow::Result<Duration> {
        self.cpu()?;
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut costs = BTreeMap::new();
        for entry in std::fs::read_dir("/proc").context("reading /proc")? {
            let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process may exit at any time.
            let Ok(text) = Self::new(id).read("stat") else { continue };
            let Some((parent, _, cost)) = parse_stat(&text) else { continue };
            children.entry(parent).or_default().push(id);
            costs.insert(id, cost);
        }
        let (mut total, mut left) = (Duration::ZERO, vec![self.id]);
        while let Some(id) = left.pop() {
            total += costs.get(&id).copied().unwrap_or_default();
            left.extend(children.remove(&id).unwrap_or_default());
        }
        Ok(total)
    }

    pub(crate) fn resident(self) -> anyhow::Result<ResidentMemory> {
        let text = self.read("status")?;
        parse_resident(&text).with_context(|| format!("/proc/{}/status has an unknown format", self.id))
    }

    /// Returns the number of bytes that the process has written to files so far. Excludes threads named like the
    /// program, and threads whose name starts with `prefix`. Linux also counts the bytes that a process sends to the
    /// disk, but if the file system caches files in large folios, it counts up to a megabyte for each small write.
    pub(crate) fn written_by_other_threads(self, prefix: &str) -> anyhow::Result<u64> {
        let tasks = format!("/proc/{}/task", self.id);
        let mut written = 0;
        for entry in std::fs::read_dir(&tasks).with_context(|| format!("reading {tasks}"))? {
            let thread = entry?.file_name().to_string_lossy().into_owned();
            // A thread may exit at any time.
            let files = ["comm", "io"].map(|file| self.read(&format!("task/{thread}/{file}")));
            let [Ok(name), Ok(io)] = files else { continue };
            if thread != self.id.to_string() && !name.starts_with(prefix) {
                written += parse_written(&io)
                    .with_context(|| format!("/proc/{}/task/TID/io has an unknown format", self.id))?;
            }
        }
        Ok(written)
    }

    fn read(self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.id);
        std::fs::read_to_string(&path).with_context(|| format!("reading {path}; is the process running?"))
    }
}

/// Parses `/proc/PID/task/TID/io`.
fn parse_written(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("wchar:"))?.trim().parse().ok()
}

/// Parses the parent from `/proc/PID/stat`, the processor time of the process, and the same with its exited children.
/// The second field of the file is a name that may contain spaces and parentheses.
fn parse_stat(stat: &str) -> Option<(u32, Duration, Duration)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_ascii_whitespace().collect();
    // The times are fields 14 to 17 of the file: user and system, of the process and of its children.
    let ticks: Option<Vec<u32>> = fields.get(11..15)?.iter().map(|field| field.parse().ok()).collect();
    let [user, system, children @ ..]: [u32; 4] = ticks?.try_into().ok()?;
    let own = TICK * user + TICK * system;
    Some((fields.get(1)?.parse().ok()?, own, own + TICK * children.iter().sum::<u32>()))
}

/// Parses `/proc/PID/status`.
fn parse_resident(status: &str) -> Option<ResidentMemory> {
    let kibibytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some(ResidentMemory { now: kibibytes("VmRSS:")? * 1024, peak: kibibytes("VmHWM:")? * 1024 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    #[test]
    fn nodes_of_a_database() {
        let node = |name: Option<&str>, id| Node { name: name.map(str::to_owned), process: Process::new(id) };
        assert_eq!(Node::parse("17"), Ok(node(None, 17)));
        assert_eq!(Node::parse("worker 1=17"), Ok(node(Some("worker 1"), 17)));
        for bad in ["", "x", "x=", "x=y", "17=x"] {
            assert!(Node::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn processor_time_of_a_process_with_an_odd_name() {
        let stat = "4321 (odd ) name) S 1 4321 4321 0 -1 4194560 1200 0 3 0 150 25 7 8 20 0 9 0 777 1000 200 18446";
        assert_eq!(parse_stat(stat), Some((1, Duration::from_millis(1750), Duration::from_millis(1900))));
        for malformed in ["", "1 (a) S 1", "1 (a) S 1 1 1 0 -1 0 0 0 0 0 x 25"] {
            assert_eq!(parse_stat(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn resident_memory() {
        let status = "Name:\trowhouse\nVmPeak:\t  900 kB\nVmHWM:\t     512 kB\nVmRSS:\t     256 kB\nThreads:\t4\n";
        assert_eq!(parse_resident(status), Some(ResidentMemory { now: 256 * 1024, peak: 512 * 1024 }));
        assert_eq!(parse_resident("Name:\tzombie\n"), None);
    }

    #[test]
    fn written_bytes() {
        let io = "rchar: 10\nwchar: 3988\nwrite_bytes: 81920\ncancelled_write_bytes: 4096\n";
        assert_eq!(parse_written(io), Some(3988));
        assert_eq!(parse_written("write_bytes: 3988\n"), None);
    }

    #[test]
    fn this_process_can_be_measured() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[0; 5000]).unwrap();
        assert!(Process::current().written_by_other_threads("no such name").unwrap() >= 5000);
        assert!(Process::current().cpu().is_ok());
        assert!(Process::current().resident().unwrap().now > 0);
        assert!(Process::new(0).cpu().is_err() && Process::new(0).family_cpu().is_err());
    }

    #[test]
    fn children_count_while_they_run_and_afterwards() {
        // This loop uses 20 ticks of processor time, however long it takes.
        let busy = "while read -r -a stat </proc/$BASHPID/stat && [ $((stat[13] + stat[14])) -lt 20 ]; do :; done";
        // The first loop has exited when the second one prints a line and waits.
        let script = format!("({busy}); ({busy}; echo; read -r _); true");
        let mut child = std::process::Command::new("bash");
        let mut child = child.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let process = Process::new(child.id());
        let (alone, family) = (process.cpu().unwrap(), process.family_cpu().unwrap());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(family > alone + Duration::from_millis(100), "{family:?}, of which {alone:?} without children");
    }
}
