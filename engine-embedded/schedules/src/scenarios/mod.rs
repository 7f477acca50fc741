//! The threads of each test, and the invariants that must hold. Calling a scenario runs it in one schedule.

pub mod visibility;
