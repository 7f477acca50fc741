//! Tests of the log as a whole: its bytes, and its promises on a simulated disk.

mod disk;
mod golden;
mod model;
mod real;
mod simulation;
mod workload;
