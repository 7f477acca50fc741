//! The source of the current time. Only this module reads the time; other code receives it as a parameter.
//!
//! This module must not know who needs the time.

use crate::DateTime;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// A source of the time of day.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the current instant.
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

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> DateTime {
        (**self).now()
    }
}
