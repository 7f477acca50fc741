//! A clock that a test moves, whether the server runs in the process of the test or in its own.
//!
//! The package `rowhouse-testing` shows this type as its own, so its examples name it so.

use model::DateTime;
use model::clock::{Clock, SystemClock};
use model::limits::TEST_CLOCK_END_SECONDS;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// The time of day of a server for tests.
///
/// It is that of the operating system until the test takes hold of it: [`advance`](Self::advance) moves it ahead,
/// [`pause`](Self::pause) and [`set`](Self::set) let it stand still. All clones are one clock.
///
/// It decides about Timestamps, shared access signatures, stored access policies and everything else that the service
/// decides by the time of day. How long something takes is not decided by it: time limits, throttling and pauses
/// between attempts.
///
/// With the key of an account, the service refuses requests whose date is more than 15 minutes from its own time. A
/// server with this clock accepts those whose date is near the time of the operating system too, so clients work on while
/// a test moves the clock.
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
    /// Told of every change of the state.
    moves: watch::Sender<()>,
}

#[derive(Debug)]
enum State {
    /// Differs from the clock of the operating system by this many ticks of 100 ns.
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

    /// A clock that runs on from this time.
    fn running_from(time: DateTime) -> Self {
        Self::Running { ahead: time.ticks() - SystemClock.now().ticks() }
    }
}

/// The time that lies this many ticks of 100 ns later, or the end of the times that the clock shows.
fn later(time: DateTime, ticks: i64) -> DateTime {
    let last = DateTime::MAX.ticks() - TEST_CLOCK_END_SECONDS * 10_000_000;
    let ticks = time.ticks().saturating_add(ticks).clamp(0, last);
    DateTime::from_ticks(ticks).unwrap_or(DateTime::MIN)
}

impl TestClock {
    /// A clock that shows the time of the operating system.
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

    /// The time that the clock shows, in steps of 100 ns.
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
        self.state().now().to_system_time()
    }

    /// Moves the clock ahead, but not beyond a day before the end of the year 9999. It then runs on, or stands still, as
    /// before.
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

    /// Sets the clock to this time, where it stands still. The first time that it shows is the beginning of the year 1601, the
    /// last is a day before the end of the year 9999; times before and after become these.
    ///
    /// Timestamps of entities grow with every write all the same, by at least 100 ns.
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

    /// Lets the clock stand still where it is.
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

    /// Lets the clock run on from the time that it shows.
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

    /// Lets the clock show the time of the operating system again.
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

    /// Whether the clock stands still.
    ///
    /// ```
    /// # use rowhouse_server as rowhouse_testing;
    /// let clock = rowhouse_testing::TestClock::new();
    /// assert!(!clock.is_stopped());
    /// clock.pause();
    /// assert!(clock.is_stopped());
    /// ```
    pub fn is_stopped(&self) -> bool {
        matches!(*self.state(), State::Paused { .. })
    }

    /// Receives a message whenever a test has moved the clock.
    pub(crate) fn moves(&self) -> watch::Receiver<()> {
        self.0.moves.subscribe()
    }

    fn change(&self, change: impl FnOnce(&State) -> State) {
        {
            let mut state = self.state();
            *state = change(&state);
        }
        self.0.moves.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change of it can panic half-way.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for TestClock {
    fn now(&self) -> DateTime {
        self.state().now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Accounts;
    use crate::reload::Live;
    use crate::telemetry::analytics::{self, Analytics, AnalyticsWriter};
    use model::{AccountName, EntityKey, KeyText, MetricsTable, ServiceProperties, TableName};
    use store::{Engine, Memory, TableKey};

    #[tokio::test(start_paused = true)]
    async fn moving_the_clock_wakes_the_writer_of_metrics() {
        let clock = TestClock::new();
        let set = |text: &str| clock.set(DateTime::parse(text).unwrap().to_system_time());
        set("2031-03-14T08:59:01Z");
        let engine = Arc::new(Memory::new(clock.clone()));
        engine.set_fresh_properties(ServiceProperties::measured());
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
        let table = TableKey { account, name: TableName::of_metrics(MetricsTable::HourPrimary) };
        let text = |text| KeyText::new(text).unwrap();
        let key = EntityKey { partition: text("20310314T0800"), row: text("user;All") };
        while !matches!(engine.get(&table, &key).await, Ok(Some(_))) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?} of the time of the test's clock", began.elapsed());
        running.abort();
    }
}
