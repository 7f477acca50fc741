//! The threads of each test, and the invariants that must hold. Calling a scenario runs it in one schedule.

pub mod hand_over;
pub mod log;
pub mod outage;
pub mod preparation;
pub mod queue;
pub mod room;
pub mod snapshots;

mod running;
