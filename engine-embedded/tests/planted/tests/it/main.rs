//! The crash tests of the engine's log find every mistake that `build.rs` plants in a copy of it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failure is a failed test")]
#![allow(clippy::print_stdout, reason = "a seed that is not printed cannot be repeated")]
#![allow(dead_code, unused_imports, reason = "the test does not use everything in the modules of the engine")]
#![allow(clippy::all, clippy::pedantic, reason = "the copy contains conditions that the log does not have")]

#[path = "../../../../src/sequence.rs"]
mod sequence;
#[path = "../../../../src/sync.rs"]
mod sync;

#[path = "."]
mod log {
    use std::cell::Cell;

    include!(concat!(env!("OUT_DIR"), "/log.rs"));

    thread_local! {
        static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
    }

    /// Whether a mistake is turned on in the log of this thread.
    fn planted(mistake: Mistake) -> bool {
        PLANTED.get() == Some(mistake)
    }

    #[path = "."]
    mod tests {
        #[path = "../../../../src/log/tests/disk.rs"]
        mod disk;
        #[path = "../../../../src/log/tests/simulation.rs"]
        mod simulation;
        #[path = "../../../../src/log/tests/workload.rs"]
        mod workload;

        use super::{MISTAKES, PLANTED};

        #[test]
        fn planted_mistakes_are_found() {
            let found = MISTAKES.map(|(mistake, durability)| {
                PLANTED.set(Some(mistake));
                (mistake, simulation::finds(&format!("{mistake:?}"), durability, None))
            });
            let missed: Vec<_> = found.iter().filter(|(_, is_found)| !is_found).collect();
            assert!(missed.is_empty(), "not found: {missed:?}");
        }
    }
}
