//! The threads of each test, and the invariants that must hold. Calling a scenario runs it in one schedule.

pub mod queue;
pub mod queue_memory;
pub mod visibility;
