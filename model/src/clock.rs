//! Where the time comes from. Time is read in one place and passed in.
//!
//! This module must not know who needs the time.

use crate::DateTime;
use std::time::SystemTime;

/// A source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// The current instant.
    fn now(&self) -> DateTime;
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime {
        DateTime::from_system_time(SystemTime::now())
    }
}
