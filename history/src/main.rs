//! Writes histories of the model store, with the checker's verdicts, for another judge.

#![allow(clippy::print_stderr, reason = "the results of a program")]

use history::{PlantedBug, Rules, Simulation, StampOrder, check, simulate, write_history};
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

const ORDERS: [(&str, StampOrder); 3] =
    [("partition", StampOrder::Partition), ("entity", StampOrder::Entity), ("life", StampOrder::Life)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["simulate", folder, count] => write_simulations(Path::new(folder), count),
        _ => Err("usage: rowhouse-history simulate FOLDER COUNT".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Writes histories, and a file with the verdict on each: its name, the order of Timestamps, and the verdict.
fn write_simulations(folder: &Path, count: &str) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let mut verdicts = String::new();
    for seed in 0..count.parse::<u64>()? {
        let choose = |count: usize| usize::try_from(seed).unwrap_or_default() % count;
        let (name, order) = ORDERS.get(choose(ORDERS.len())).copied().ok_or("there are orders")?;
        // Every other history has a planted bug.
        let bug = PlantedBug::ALL.get(choose(2 * PlantedBug::ALL.len()) / 2).filter(|_| seed % 2 == 1).copied();
        let history = simulate(Simulation {
            seed,
            operations: 30 + choose(50),
            clients: 2 + choose(4),
            partitions: 1 + choose(2),
            rows: 2 + choose(3),
            order,
            has_filters: seed % 5 == 0,
            bug,
        });
        let file = format!("{seed}.jsonl");
        write_history(&folder.join(&file), &history)?;
        let report = check(&history, Rules::new(order));
        let verdict = match (report.violations.is_empty(), report.undecided.is_empty()) {
            (false, _) => "violated",
            (true, true) => "serializable",
            (true, false) => "undecided",
        };
        writeln!(verdicts, "{file} {name} {verdict}")?;
    }
    fs::write(folder.join("verdicts"), verdicts)?;
    Ok(())
}
