//! The clock of a program.

use super::ProgramServer;
use crate::Error;
use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use time::format_description::{BorrowedFormatItem, parse_borrowed};
use time::{OffsetDateTime, PrimitiveDateTime};

/// The clock of a [`ProgramServer`], which a test controls.
///
/// ```no_run
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// use std::time::{Duration, SystemTime};
///
/// let server = rowhouse_testing::TestServer::program().start_blocking()?;
/// let july = SystemTime::UNIX_EPOCH + Duration::from_secs(1_940_630_400);
/// server.clock().set(july)?;
/// assert_eq!(server.clock().now()?, july);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ProgramClock<'s>(pub(super) &'s ProgramServer);

impl ProgramClock<'_> {
    /// Returns the time that the clock shows, in steps of 100 ns.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// println!("{:?}", server.clock().now()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn now(self) -> Result<SystemTime, Error> {
        let state = self.state()?;
        let now = state.get("now").and_then(Value::as_str).and_then(from_text);
        now.ok_or_else(|| Error::new(anyhow!("the response contains no time: {state}")))
    }

    /// Returns true if the clock is stopped.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// assert!(!server.clock().is_stopped()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_stopped(self) -> Result<bool, Error> {
        Ok(self.state()?.get("stopped").and_then(Value::as_bool).unwrap_or_default())
    }

    /// Moves the clock forward. A running clock continues to run, and a stopped clock stays stopped.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// server.clock().advance(std::time::Duration::from_secs(86_400))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(self, duration: Duration) -> Result<(), Error> {
        self.change(&json!({ "advanceSeconds": duration.as_secs_f64() }))
    }

    /// Sets the clock to the given time and stops it. The time must be between the years 1601 and 9999.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// server.clock().set(std::time::SystemTime::UNIX_EPOCH)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(self, time: SystemTime) -> Result<(), Error> {
        let text = to_text(time).context("the clock cannot show this time").map_err(Error::new)?;
        self.change(&json!({ "now": text }))
    }

    /// Stops the clock at its current time.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// server.clock().pause()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause(self) -> Result<(), Error> {
        self.change(&json!({ "stopped": true }))
    }

    /// Resumes the clock from the time that it shows.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// server.clock().resume()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(self) -> Result<(), Error> {
        self.change(&json!({ "stopped": false }))
    }

    /// Resets the clock to the time of the operating system.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// server.clock().reset()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reset(self) -> Result<(), Error> {
        self.change(&json!({ "system": true }))
    }

    fn state(self) -> Result<Value, Error> {
        self.0.send("GET", "/test/clock", None)
    }

    fn change(self, change: &Value) -> Result<(), Error> {
        self.0.send("PUT", "/test/clock", Some(change)).map(drop)
    }
}

/// Writes a time as an `Edm.DateTime` value, in steps of 100 ns. Returns `None` if the year has more than four digits.
fn to_text(time: SystemTime) -> Option<String> {
    let since = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => time::Duration::try_from(after).ok()?,
        Err(before) => -time::Duration::try_from(before.duration()).ok()?,
    };
    let time = OffsetDateTime::UNIX_EPOCH.checked_add(since).filter(|time| (1..=9999).contains(&time.year()))?;
    time.format(&format()).ok()
}

/// Reads a time that the server wrote: `2031-07-01T08:00:00.0000000Z`.
fn from_text(text: &str) -> Option<SystemTime> {
    Some(PrimitiveDateTime::parse(text, &format()).ok()?.assume_utc().into())
}

/// The form of times that the server writes, in steps of 100 ns.
fn format() -> Vec<BorrowedFormatItem<'static>> {
    let form = "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:7]Z";
    parse_borrowed::<2>(form).expect("the description is well-formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        let july = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_940_630_400_123_456_700);
        let early = SystemTime::UNIX_EPOCH - Duration::from_hours(1);
        for (time, text) in [(july, "2031-07-01T00:00:00.1234567Z"), (early, "1969-12-31T23:00:00.0000000Z")] {
            assert_eq!(to_text(time).as_deref(), Some(text));
            assert_eq!(from_text(text), Some(time));
        }
        assert_eq!(to_text(SystemTime::UNIX_EPOCH + Duration::from_secs(400_000_000_000)), None);
        for bad in ["", "2031-07-01", "2031-07-01T00:00:00Z", "2031-13-01T00:00:00.0000000Z"] {
            assert_eq!(from_text(bad), None, "{bad}");
        }
    }
}
