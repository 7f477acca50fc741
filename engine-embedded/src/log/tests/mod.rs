//! Tests of the log as a whole: its bytes, and its promises on a simulated disk.

mod crashes;
mod disk;
mod failures;
mod golden;
mod kept;
mod model;
mod real;
mod refusals;
mod simulation;
mod workload;
