//! Files of histories: one operation in JSON on each line, in any order. A file can be checked again, with bounded
//! memory if the partitions are small.

use crate::checker::{Report, Rules, check};
use crate::operation::Operation;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

/// The number of parts into which a file is divided, so that only one of them is in memory at a time.
const PARTS: usize = 64;

/// Writes a history to a file.
pub fn write_history(path: &Path, history: &[Operation]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for operation in history {
        serde_json::to_writer(&mut file, operation)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// Reads a history from a file.
pub fn read_history(path: &Path) -> io::Result<Vec<Operation>> {
    BufReader::new(File::open(path)?).lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

/// Checks the history in files, as one history. Temporary files hold the partitions, so that the memory depends on the
/// largest partitions and not on the size of the files.
pub fn check_files(paths: &[&Path], rules: Rules) -> io::Result<Report> {
    let folder = tempfile::tempdir()?;
    let part_path = |part: usize| folder.path().join(part.to_string());
    let parts: io::Result<Vec<_>> = (0..PARTS).map(|part| Ok(BufWriter::new(File::create(part_path(part))?))).collect();
    let mut parts = parts?;
    for path in paths {
        for line in BufReader::new(File::open(path)?).lines() {
            let line = line?;
            let operation: Operation = serde_json::from_str(&line)?;
            let mut hasher = DefaultHasher::new();
            operation.partition.hash(&mut hasher);
            let part = usize::try_from(hasher.finish() % PARTS as u64).unwrap_or_default();
            if let Some(part) = parts.get_mut(part) {
                writeln!(part, "{line}")?;
            }
        }
    }
    for mut part in parts {
        part.flush()?;
    }
    let mut report = Report::default();
    for part in 0..PARTS {
        report.add(check(&read_history(&part_path(part))?, rules));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::StampOrder;
    use crate::planted::PlantedBug;
    use crate::store::{Simulation, simulate};

    #[test]
    fn a_file_is_judged_like_the_history_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let order = StampOrder::Partition;
        for bug in [None, Some(PlantedBug::TornPage)] {
            let parameters = Simulation {
                seed: 7,
                operations: 2000,
                clients: 5,
                partitions: 9,
                rows: 3,
                order,
                has_filters: true,
                bug,
            };
            let history = simulate(parameters);
            let (first, second) = history.split_at(900);
            let paths = [folder.path().join("first"), folder.path().join("second")];
            write_history(&paths[0], first).unwrap();
            write_history(&paths[1], second).unwrap();
            assert_eq!(read_history(&paths[0]).unwrap(), first);
            let found = check_files(&[&paths[0], &paths[1]], Rules::new(order)).unwrap();
            let expected = check(&history, Rules::new(order));
            assert_eq!((found.operations, found.partitions), (expected.operations, expected.partitions));
            let violated = |report: &Report| {
                let mut names: Vec<_> = report.violations.iter().map(|it| it.partition.clone()).collect();
                names.sort();
                names
            };
            assert_eq!(violated(&found), violated(&expected));
            assert_eq!(violated(&found).is_empty(), bug.is_none());
        }
    }
}
