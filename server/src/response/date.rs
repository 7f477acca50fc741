//! The `Date` header, from the server's clock.
//!
//! The HTTP library would add one, but its value only moves forward: after the clock is set back, the value stays the
//! same until the clock has caught up. Here, each thread keeps the value of the last second, so most responses neither
//! format a date nor share a lock.

use http::HeaderValue;
use model::DateTime;
use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

/// The last second of the year 9999, after which HTTP has no dates.
const SECONDS_MAX: u64 = 253_402_300_799;

thread_local! {
    static LAST: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
}

/// Clamps a time that HTTP cannot express to the nearest time that it can express.
pub(crate) fn header(now: DateTime) -> HeaderValue {
    let seconds = u64::try_from(now.unix_seconds()).unwrap_or_default().min(SECONDS_MAX);
    LAST.with_borrow_mut(|last| match last {
        Some((second, value)) if *second == seconds => value.clone(),
        _ => {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            let value = HeaderValue::try_from(text).expect("a date is visible ASCII");
            last.insert((seconds, value)).1.clone()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seconds_after_epoch: u64) -> HeaderValue {
        header(DateTime::from_system_time(UNIX_EPOCH + Duration::from_secs(seconds_after_epoch)))
    }

    #[test]
    fn the_date_moves_forward_and_back() {
        for _ in 0..2 {
            assert_eq!(text(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
            assert_eq!(text(784_111_776), "Sun, 06 Nov 1994 08:49:36 GMT");
        }
    }

    #[test]
    fn every_time_has_a_date() {
        assert_eq!(header(DateTime::MIN), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert!(header(DateTime::MAX).to_str().unwrap().contains("Dec 9999"));
    }
}
