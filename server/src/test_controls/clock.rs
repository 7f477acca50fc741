//! A clock that a test moves, whether the server runs in the test's process or in its own.
//!
//! The package `rowhouse-testing` re-exports this type, so the examples use that name.

use model::DateTime;
use model::clock::{Clock, SystemClock};
use model::limits::TEST_CLOCK_END_SECONDS;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// The time of day of a server in tests.
///
/// It follows the operating system until the test changes it: [`advance`](Self::advance) moves it forward,
/// [`pause`](Self::pause) and [`set`](Self::set) stop it. All clones share one clock.
///
/// The clock determines Timestamps, the validity of shared access signatures and stored access policies, and
/// everything else that depends on the time of day. It does not affect durations: time limits, throttling and pauses
/// between attempts.
///
/// With an account key, the service refuses requests whose date is more than 15 minutes from its own time. A server
/// with this clock also accepts requests whose date is near the time of the operating system, so clients continue to
/// work while a test moves the clock.
///
/// ```
/// # use rowhouse_server as rowhouse_testing;
/// use rowhouse_testing::TestClock;
/// use std::time::Duration;
///
/// let clock = TestClock::new();
/// clock.pause();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now(), before + Duration::from_secs(3600));
/// ```
#[derive(Debug, Clone, Default)]
pub struct TestClock(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    moves: watch::Sender<()>,
}

#[derive(Debug)]
enum State {
    /// The clock differs from the operating system's clock by a number of ticks of 100 ns.
    Running {
        ahead: i64,
    },
    Paused {
        at: DateTime,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Running { ahead: 0 }
    }
}

impl State {
    fn now(&self) -> DateTime {
        match self {
            Self::Running { ahead } => later(SystemClock.now(), *ahead),
            Self::Paused { at } => *at,
        }
    }

    fn running_from(time: DateTime) -> Self {
        Self::Running { ahead: time.ticks() - SystemClock.now().ticks() }
    }
}

/// Returns the time that is `ticks` ticks of 100 ns later, limited to the last time that the clock can show.
fn later(time: DateTime, ticks: i64) -> DateTime {
    let last = DateTime::MAX.ticks() - TEST_CLOCK_END_SECONDS * 10_000_000;
    let ticks = time.ticks().saturating_add(ticks).clamp(0, last);
    DateTime::from_ticks(ticks).unwrap_or(DateTime::MIN)
}

impl TestClock {
    /// Creates a clock that shows the time of the operating system.
    ///
    /// ```
    /// # use rowhouse_server as rowhouse_testing;
    /// use rowhouse_testing::TestClock;
    /// use std::time::SystemTime;
    ///
    /// let before = SystemTime::now();
    /// assert!(TestClock::new().now() + std::time::Duration::from_nanos(100) > before);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the time that the clock shows, in steps of 100 ns.
    ///
    /// ```
    /// # use rowhouse_server as rowhouse_testing;
    /// use rowhouse_testing::TestClock;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = TestClock::new();
    /// clock.set(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    /// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    /// ```
    pub fn now(&self) -> SystemTime {
        self.0.state.lock().now().to_system_time()
    }

    /// Moves the clock forward, but not beyond one day before the end of the year 9999. A running clock continues to
    /// run, and a stopped clock stays stopped.
    ///
    /// ```
    /// # use rowhouse_server as rowhouse_testing;
    /// use rowhouse_testing::TestClock;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = TestClock::new();
    /// clock.advance(Duration::from_secs(86_400));
    /// assert!(clock.now() > SystemTime::now() + Duration::from_secs(86_000));
    /// ```
    pub fn advance(&self, duration: Duration) {
        let ticks = i64::try_from(duration.as_nanos() / 100).unwrap_or(i64::MAX);
        self.change(|state| match *state {
            State::Running { .. } => State::running_from(later(state.now(), ticks)),
            State::Paused { at } => State::Paused { at: later(at, ticks) },
        });
    }

    /// Sets the clock to the given time and stops it. The earliest time is the beginning of the year 1601, and the
    /// latest is one day before the end of the year 9999; other times are clamped to this range.
    ///
    /// Even then, Timestamps of entities increase with every write, by at least 100 ns.
    ///
    /// ```
    /// # use rowhouse_server as rowhouse_testing;
    /// use rowhouse_testing::TestClock;
    /// use std::time::SystemTime;
    ///
    /// let clock = TestClock::new();
    /// clock.set(SystemTime::UNIX_EPOCH);
    /// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH);
    /// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH);
    /// ```
    pub fn set(&self, time: SystemTime) {
        self.change(|_| State::Paused { at: later(DateTime::from_system_time(time), 0) });
    }

    /// Stops the clock at its current time.
    ///
    /// ```
    /// # use rowhouse_server as rowhouse_testing;
    /// let clock = rowhouse_testing::TestClock::new();
    /// clock.pause();
    /// assert_eq!(clock.now(), clock.now());
    /// ```
    pub fn pause(&self) {
        self.change(|state| State::Paused { at: state.now() });
    }

    /// Resumes the clock from the time that it shows.
    ///
    /// ```
    /// # use rowhouse_server as rowhouse_testing;
    /// use rowhouse_testing::TestClock;
    /// use std::time::SystemTime;
    ///
    /// let clock = TestClock::new();
    /// clock.set(SystemTime::UNIX_EPOCH);
    /// clock.resume();
    /// let first = clock.now();
    /// while clock.now() == first {}
    /// ```
    pub fn resume(&self) {
        self.change(|state| State::running_from(state.now()));
    }

    /// Resets the clock to the time of the operating system.
    ///
    /// ```
    /// # use rowhouse_server as rowhouse_testing;
    /// use rowhouse_testing::TestClock;
    /// use std::time::SystemTime;
    ///
    /// let clock = TestClock::new();
    /// clock.set(SystemTime::UNIX_EPOCH);
    /// clock.reset();
    /// assert!(!clock.is_stopped() && clock.now() > SystemTime::UNIX_EPOCH);
    /// ```
    pub fn reset(&self) {
        self.change(|_| State::default());
    }

    /// Returns true if the clock is stopped.
    ///
    /// ```
    /// # use rowhouse_server as rowhouse_testing;
    /// let clock = rowhouse_testing::TestClock::new();
    /// assert!(!clock.is_stopped());
    /// clock.pause();
    /// assert!(clock.is_stopped());
    /// ```
    pub fn is_stopped(&self) -> bool {
        matches!(*self.0.state.lock(), State::Paused { .. })
    }

    /// Returns a receiver that gets a message whenever a test has moved the clock.
    pub(crate) fn moves(&self) -> watch::Receiver<()> {
        self.0.moves.subscribe()
    }

    fn change(&self, change: impl FnOnce(&State) -> State) {
        {
            let mut state = self.0.state.lock();
            *state = change(&state);
        }
        self.0.moves.send_replace(());
    }
}

impl Clock for TestClock {
    fn now(&self) -> DateTime {
        self.0.state.lock().now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Accounts;
    use crate::reload::Live;
    use crate::telemetry::analytics::{self, Analytics, AnalyticsWriter};
    use engine::{Engine, Memory, TableKey};
    use model::{AccountName, EntityKey, KeyText, MetricsTable, ServiceProperties, TableName};

    #[tokio::test(start_paused = true)]
    async fn moving_the_clock_wakes_the_writer_of_metrics() {
        let clock = TestClock::new();
        let set = |text: &str| clock.set(DateTime::parse(text).unwrap().to_system_time());
        set("2031-03-14T08:59:01Z");
        let engine: Arc<dyn Engine> = Arc::new(Memory::new(clock.clone()));
        engine.set_default_properties(ServiceProperties::with_hourly_metrics());
        let accounts = Accounts::from_environment_text("orchard:AAAAAAAAAAAAAAAAAAAAAA==").unwrap();
        let analytics = Arc::new(Analytics::new(false, Arc::new(clock.clone()), Some(clock.moves())));
        let writer =
            AnalyticsWriter { engine: Arc::clone(&engine), accounts: Arc::new(Live::new(accounts)), analytics };
        let running = tokio::spawn(analytics::run(writer));
        // The writer waits for the end of the minute.
        tokio::task::yield_now().await;

        let began = tokio::time::Instant::now();
        set("2031-03-14T09:00:00Z");
        let account = AccountName::new("orchard").unwrap();
        let table = TableKey { account, name: TableName::from_metrics_table(MetricsTable::HourPrimary) };
        let text = |text| KeyText::new(text).unwrap();
        let key = EntityKey { partition: text("20310314T0800"), row: text("user;All") };
        while !matches!(engine.get(&table, &key).await, Ok(Some(_))) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?} of the time of the test's clock", began.elapsed());
        running.abort();
    }
}
