//! Tests of the log as a whole: its bytes, and its promises on a simulated disk.

mod crashes;
mod disk;
mod failures;
mod golden;
mod kept;
mod real;
mod simulation;
mod workload;
