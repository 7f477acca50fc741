//! `Edm.DateTime`: an instant in UTC, in ticks of 100 ns, from 1601 to 9999.
//!
//! Text forms and range: specification 01 §6.1.
//!
//! Invariant: every value is within this range.
//!
//! This module must not contain date formats that the protocol does not use.

use crate::dialect::Dialect;
use std::fmt;
use std::time::{Duration, SystemTime};

/// The number of ticks in a second.
pub const TICKS_PER_SECOND: i64 = 10_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const TICKS_PER_DAY: i64 = SECONDS_PER_DAY * TICKS_PER_SECOND;
/// Ticks from 1601-01-01 to 1970-01-01.
const UNIX_EPOCH_TICKS: i64 = 116_444_736_000_000_000;
/// The number of days from 1600-03-01 to 1601-01-01, the day of tick 0.
const DAYS_FROM_MARCH_1600: i64 = 306;
/// The number of days in 400 years, after which the calendar repeats.
const DAYS_PER_CYCLE: i64 = 146_097;
/// The length of `YYYY-MM-DD`.
const DATE_BYTES: usize = 10;
/// 9999-12-31T23:59:59.9999999Z.
const TICKS_MAX: i64 = 2_650_467_743_999_999_999;

/// An instant in UTC with a precision of 100 ns, from 1601-01-01 to the end of the year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(i64);

/// The reason why a string is not a valid `Edm.DateTime`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DateTimeError {
    /// The string does not have the form `YYYY-MM-DDThh:mm[:ss[.f{1,7}]][Z|±hh:mm]`.
    Malformed,
    /// The instant is before 1601. The string is the instant as the service formats it in its error message.
    OutOfRange(String),
}

impl DateTime {
    /// 1601-01-01T00:00:00Z.
    pub const MIN: Self = Self(0);
    /// 9999-12-31T23:59:59.9999999Z.
    pub const MAX: Self = Self(TICKS_MAX);

    /// Returns the instant that is `ticks` units of 100 ns after 1601-01-01, or `None` if it is out of range.
    pub fn from_ticks(ticks: i64) -> Option<Self> {
        (0..=TICKS_MAX).contains(&ticks).then_some(Self(ticks))
    }

    /// Returns the number of 100 ns ticks since 1601-01-01T00:00:00Z.
    pub fn ticks(self) -> i64 {
        self.0
    }

    /// Returns the next representable instant, 100 ns later. The last instant is returned unchanged.
    pub fn next(self) -> Self {
        Self((self.0 + 1).min(TICKS_MAX))
    }

    /// Returns the instant this number of seconds later, or `None` if it is out of range.
    pub fn plus_seconds(self, seconds: u32) -> Option<Self> {
        Self::from_ticks(self.0 + i64::from(seconds) * TICKS_PER_SECOND)
    }

    /// Converts a system time. Times outside the range are clamped to it.
    pub fn from_system_time(time: SystemTime) -> Self {
        // Every request does this, so avoid a 128-bit division.
        let ticks = |d: Duration| {
            let seconds = i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
            seconds.saturating_mul(TICKS_PER_SECOND).saturating_add(i64::from(d.subsec_nanos() / 100))
        };
        let since_1601 = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => UNIX_EPOCH_TICKS.saturating_add(ticks(after)),
            Err(before) => UNIX_EPOCH_TICKS.saturating_sub(ticks(before.duration())),
        };
        Self(since_1601.clamp(0, TICKS_MAX))
    }

    /// Converts the instant to a system time.
    pub fn to_system_time(self) -> SystemTime {
        let ticks = self.0 - UNIX_EPOCH_TICKS;
        let distance = ticks.unsigned_abs();
        let per_second = TICKS_PER_SECOND.unsigned_abs();
        let nanoseconds = u32::try_from(distance % per_second * 100).expect("it is less than a second");
        let distance = Duration::new(distance / per_second, nanoseconds);
        if ticks < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance }
    }

    /// Returns the number of whole seconds since 1970-01-01T00:00:00Z, rounded down.
    pub fn unix_seconds(self) -> i64 {
        (self.0 - UNIX_EPOCH_TICKS).div_euclid(TICKS_PER_SECOND)
    }

    /// Parses the text form of the protocol. A missing suffix means UTC; offsets are converted. Source: 01 §6.1. A date
    /// without a time is not accepted.
    pub fn parse(text: &str) -> Result<Self, DateTimeError> {
        Self::from_digits(Digits { rest: text.as_bytes() }.instant())
    }

    /// Parses the text of a value, which may also be a date without a time, with or without an offset (01 §6.5).
    pub fn parse_value(text: &str) -> Result<Self, DateTimeError> {
        let mut digits = Digits { rest: text.as_bytes() };
        let is_date = text.as_bytes().get(DATE_BYTES).is_none_or(|next| matches!(next, b'Z' | b'z' | b'+' | b'-'));
        Self::from_digits(if is_date { digits.date() } else { digits.instant() })
    }

    fn from_digits(ticks: Option<i64>) -> Result<Self, DateTimeError> {
        let ticks = ticks.ok_or(DateTimeError::Malformed)?;
        if (0..=TICKS_MAX).contains(&ticks) {
            Ok(Self(ticks))
        } else {
            Err(DateTimeError::OutOfRange(net_framework_text(ticks)))
        }
    }

    /// Returns the text form of the protocol, without trailing zeros in the fraction (01 §6.1).
    pub fn text(self) -> InstantText {
        Dialect::Storage.text(self)
    }

    fn text_in(self, dialect: Dialect) -> InstantText {
        let (year, month, day) = civil(self.0.div_euclid(TICKS_PER_DAY));
        let of_day = self.0.rem_euclid(TICKS_PER_DAY);
        let (seconds, ticks) = (small(of_day / TICKS_PER_SECOND), small(of_day % TICKS_PER_SECOND));
        let year = u32::try_from(year).unwrap_or(0);
        let ([y1, y2], [y3, y4]) = (pair(year / 100), pair(year % 100));
        let ([m1, m2], [d1, d2], [h1, h2]) = (pair(month.into()), pair(day.into()), pair(seconds / 3600));
        let ([f1, f2], [f3, f4], [f5, f6]) = (pair(ticks / 100_000), pair(ticks / 1000 % 100), pair(ticks / 10 % 100));
        let [_, f7] = pair(ticks % 10);
        InstantText {
            hour: [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2],
            minute: pair(seconds / 60 % 60),
            second: pair(seconds % 60),
            fraction: [b'.', f1, f2, f3, f4, f5, f6, f7],
            dialect,
        }
    }

    /// Appends the text form of the protocol, without trailing zeros in the fraction (01 §6.1).
    pub fn write_to(self, out: &mut Vec<u8>) {
        self.text().write_to(out);
    }

    /// Appends the form used inside an ETag: as [`Self::write_to`], with each `:` as `%3A` (01 §8).
    pub fn write_etag_to(self, out: &mut Vec<u8>) {
        self.text().write_etag_to(out);
    }

    /// Appends the form with exactly seven fractional digits, as it appears in error bodies and policies (03 §6).
    pub fn write_seven_digits_to(self, out: &mut Vec<u8>) {
        let text = self.text();
        text.write(out, b":", &text.fraction);
    }

    /// Appends the form with whole seconds, as it appears in Atom's `updated` (03 §5.3).
    pub fn write_whole_seconds_to(self, out: &mut Vec<u8>) {
        self.text().write(out, b":", b"");
    }
}

impl Dialect {
    /// Returns the text form of an instant: without trailing zeros in the fraction (01 §6.1), or with them (11 §4).
    pub fn text(self, instant: DateTime) -> InstantText {
        instant.text_in(self)
    }
}

/// The digits of an instant, computed once for the two forms in which every entity of a page contains its Timestamp.
#[derive(Debug, Clone, Copy)]
pub struct InstantText {
    /// Date and hour: `2021-03-04T05`.
    hour: [u8; 13],
    minute: [u8; 2],
    second: [u8; 2],
    /// The decimal point and all seven digits.
    fraction: [u8; 8],
    dialect: Dialect,
}

impl InstantText {
    /// Appends the form of [`DateTime::write_to`], or the dialect's.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        self.write(out, b":", self.written_fraction());
    }

    /// Appends the form of [`DateTime::write_etag_to`], or the dialect's.
    pub fn write_etag_to(&self, out: &mut Vec<u8>) {
        self.write(out, b"%3A", self.written_fraction());
    }

    /// Returns the minute as `20210304T0506`. The order of these strings is the order of the minutes.
    pub fn minute(&self) -> [u8; 13] {
        let [y1, y2, y3, y4, _, m1, m2, _, d1, d2, t, h1, h2] = self.hour;
        let [n1, n2] = self.minute;
        [y1, y2, y3, y4, m1, m2, d1, d2, t, h1, h2, n1, n2]
    }

    fn written_fraction(&self) -> &[u8] {
        if self.dialect == Dialect::Cosmos {
            return &self.fraction;
        }
        let zeros = self.fraction.iter().rev().take_while(|digit| **digit == b'0').count();
        let kept = if zeros == 7 { 0 } else { self.fraction.len() - zeros };
        self.fraction.get(..kept).unwrap_or_default()
    }

    fn write<const N: usize>(&self, out: &mut Vec<u8>, colon: &[u8; N], fraction: &[u8]) {
        out.extend_from_slice(&self.hour);
        out.extend_from_slice(colon);
        out.extend_from_slice(&self.minute);
        out.extend_from_slice(colon);
        out.extend_from_slice(&self.second);
        out.extend_from_slice(fraction);
        out.push(b'Z');
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(28);
        self.write_to(&mut out);
        f.write_str(std::str::from_utf8(&out).expect("only ASCII was written"))
    }
}

/// Converts the seconds of a day or the ticks of a second, which are far below 2^32.
fn small(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

fn pair(number: u32) -> [u8; 2] {
    [number / 10, number % 10].map(|digit| b'0' + u8::try_from(digit).unwrap_or(0))
}

/// Returns the calendar date of a day counted from 1601-01-01.
///
/// Source: Howard Hinnant, chrono-Compatible Low-Level Date Algorithms, `civil_from_days`.
fn civil(day: i64) -> (i32, u8, u8) {
    // Years begin in March, so that a leap day is the last day of its year.
    let days = day + DAYS_FROM_MARCH_1600;
    let (cycle, day_of_cycle) = (days.div_euclid(DAYS_PER_CYCLE), days.rem_euclid(DAYS_PER_CYCLE));
    let leap_days = day_of_cycle / 1460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
    let year_of_cycle = (day_of_cycle - leap_days) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // March to July and August to December have 153 days each.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = 1600 + 400 * cycle + year_of_cycle + i64::from(month > 9);
    let month = if month > 9 { month - 9 } else { month + 3 };
    let byte = |value| u8::try_from(value).unwrap_or(u8::MAX);
    (i32::try_from(year).unwrap_or(i32::MAX), byte(month), byte(day))
}

/// Returns the day of a calendar date, counted from 1601-01-01; `None` if there is no such date.
fn day_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) {
        return None;
    }
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (cycle, year_of_cycle) = ((march_year - 1600).div_euclid(400), (march_year - 1600).rem_euclid(400));
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_cycle = 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    let days = DAYS_PER_CYCLE * cycle + day_of_cycle - DAYS_FROM_MARCH_1600;
    // The day after the end of a month is a date in the next month.
    let (same_year, same_month, same_day) = civil(days);
    ((i64::from(same_year), i64::from(same_month), i64::from(same_day)) == (year, month, day)).then_some(days)
}

/// Formats an instant before 1601 as `MM/dd/yyyy HH:mm:ss`, as the service's error message does.
fn net_framework_text(ticks: i64) -> String {
    let (year, month, day) = civil(ticks.div_euclid(TICKS_PER_DAY));
    let seconds = ticks.rem_euclid(TICKS_PER_DAY) / TICKS_PER_SECOND;
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{month:02}/{day:02}/{year:04} {h:02}:{m:02}:{s:02}")
}

/// A reader of fixed-width digits. Every method returns `None` if the input does not match.
struct Digits<'a> {
    rest: &'a [u8],
}

impl Digits<'_> {
    /// Parses the whole input and returns its ticks since 1601, which are negative for earlier instants.
    fn instant(&mut self) -> Option<i64> {
        let days = self.day()?;
        if !self.one_of(b"Tt") {
            return None;
        }
        let hour = self.number(2)?;
        self.byte(b':')?;
        let minute = self.number(2)?;
        let (mut second, mut ticks) = (0, 0);
        if self.one_of(b":") {
            second = self.number(2)?;
            if self.one_of(b".") {
                ticks = self.fraction()?;
            }
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let offset_minutes = self.offset()?;
        let seconds = hour * 3600 + minute * 60 + second - offset_minutes * 60;
        Some(days * TICKS_PER_DAY + seconds * TICKS_PER_SECOND + ticks)
    }

    /// Parses the whole input as a date and returns the ticks of its midnight.
    fn date(&mut self) -> Option<i64> {
        Some(self.day()? * TICKS_PER_DAY - self.offset()? * 60 * TICKS_PER_SECOND)
    }

    /// Parses `YYYY-MM-DD` and returns the day, counted from 1601-01-01.
    fn day(&mut self) -> Option<i64> {
        let year = self.number(4)?;
        self.byte(b'-')?;
        let month = self.number(2)?;
        self.byte(b'-')?;
        let day = self.number(2)?;
        if year == 0 { None } else { day_of(year, month, day) }
    }

    /// Parses the suffix (`Z`, an offset in minutes, or nothing) and the end of the input.
    fn offset(&mut self) -> Option<i64> {
        let minutes = match self.rest.first() {
            None => 0,
            Some(b'Z' | b'z') => {
                self.rest = self.rest.get(1..)?;
                0
            }
            Some(sign @ (b'+' | b'-')) => {
                let sign = if *sign == b'-' { -1 } else { 1 };
                self.rest = self.rest.get(1..)?;
                let hours = self.number(2)?;
                self.byte(b':')?;
                let minutes = self.number(2)?;
                if hours > 14 || minutes > 59 {
                    return None;
                }
                sign * (hours * 60 + minutes)
            }
            Some(_) => return None,
        };
        self.rest.is_empty().then_some(minutes)
    }

    /// Parses one or more digits as a fraction of a second, in ticks. A tick is the seventh digit. UNVERIFIED (01
    /// §6.1): the treatment of digits after the seventh. The recordings show only that they are accepted. They are
    /// rounded half to even, as in .NET.
    fn fraction(&mut self) -> Option<i64> {
        let length = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let kept = length.min(7);
        let value = self.number(kept)?;
        let missing = u32::try_from(7 - kept).ok()?;
        let (beyond, rest) = self.rest.split_at_checked(length - kept)?;
        self.rest = rest;
        let is_up = match beyond.split_first() {
            Some((b'5', rest)) => value % 2 == 1 || rest.iter().any(|digit| *digit != b'0'),
            Some((digit, _)) => *digit > b'5',
            None => false,
        };
        (length > 0).then_some(value * 10_i64.pow(missing) + i64::from(is_up))
    }

    fn number(&mut self, width: usize) -> Option<i64> {
        let digits = self.rest.get(..width)?;
        self.rest = self.rest.get(width..)?;
        digits.iter().try_fold(0_i64, |value, b| b.is_ascii_digit().then(|| value * 10 + i64::from(b - b'0')))
    }

    fn byte(&mut self, expected: u8) -> Option<()> {
        self.one_of(&[expected]).then_some(())
    }

    fn one_of(&mut self, set: &[u8]) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if set.contains(first) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Julian day of 1601-01-01.
    const EPOCH_JULIAN_DAY: i32 = 2_305_814;

    /// Returns the day of a date according to the `time` crate, counted from 1601-01-01.
    fn expected_day(year: i32, month: u8, day: u8) -> Option<i64> {
        let month = time::Month::try_from(month).ok()?;
        let date = time::Date::from_calendar_date(year, month, day).ok()?;
        Some((date.to_julian_day() - EPOCH_JULIAN_DAY).into())
    }

    #[test]
    fn dates_are_those_of_the_time_crate() {
        // An offset from UTC can move an instant by less than a day, into the year 0 or 10000.
        let (first, last) = (expected_day(0, 12, 30).unwrap(), expected_day(9999, 12, 31).unwrap() + 1);
        for day in first..last {
            let date = time::Date::from_julian_day(i32::try_from(day).unwrap() + EPOCH_JULIAN_DAY).unwrap();
            assert_eq!(civil(day), (date.year(), date.month().into(), date.day()));
            assert_eq!(day_of(date.year().into(), u8::from(date.month()).into(), date.day().into()), Some(day));
        }
        assert_eq!(civil(last), (10_000, 1, 1));
    }

    #[test]
    fn only_dates_of_the_time_crate_are_valid() {
        // 1600 to 2400 contains every kind of century.
        for year in (1..=4).chain(1600..=2400).chain(9990..=9999) {
            for month in 0..=13 {
                for day in 0..=32 {
                    let expected = expected_day(year, month, day);
                    assert_eq!(day_of(year.into(), month.into(), day.into()), expected, "{year}-{month}-{day}");
                }
            }
        }
    }

    #[test]
    fn texts_are_read_and_printed_trimmed() {
        for (input, output) in [
            ("2023-11-05T06:31:02.1234567Z", "2023-11-05T06:31:02.1234567Z"),
            ("2023-11-05T06:31:02.8613240Z", "2023-11-05T06:31:02.861324Z"),
            ("2023-11-05T06:31:12.000000Z", "2023-11-05T06:31:12Z"),
            ("2023-11-05T06:31:12", "2023-11-05T06:31:12Z"),
            ("2023-11-05T06:31", "2023-11-05T06:31:00Z"),
            ("2023-11-05T06:31Z", "2023-11-05T06:31:00Z"),
            ("2023-11-05T06:31:12+01:30", "2023-11-05T05:01:12Z"),
            ("2023-12-31T23:31:12-01:00", "2024-01-01T00:31:12Z"),
            ("1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
        ] {
            assert_eq!(DateTime::parse(input).unwrap().to_string(), output, "{input}");
        }
        assert_eq!(DateTime::parse("9999-12-31T23:59:59.9999999Z"), Ok(DateTime::MAX));
        assert_eq!(DateTime::parse("1601-01-01T00:00:00Z"), Ok(DateTime::MIN));
    }

    #[test]
    fn digits_beyond_a_tick_are_rounded() {
        for (digits, expected) in [
            ("123456700", "1234567"),
            ("331047814", "3310478"),
            ("114906917", "1149069"),
            ("12345675", "1234568"),
            ("12345665", "1234566"),
            ("123456650000000000000000000001", "1234567"),
            ("99999999", "0000000"),
        ] {
            let text = format!("2023-11-05T06:31:02.{digits}Z");
            let mut written = Vec::new();
            DateTime::parse(&text).unwrap().write_seven_digits_to(&mut written);
            let second = if digits == "99999999" { "03" } else { "02" };
            assert_eq!(
                String::from_utf8(written).unwrap(),
                format!("2023-11-05T06:31:{second}.{expected}Z"),
                "{digits}"
            );
        }
    }

    #[test]
    fn malformed_texts_are_refused() {
        for text in [
            "",
            "2023",
            "2023-11-05",
            "2023-13-05T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2023-11-05 06:31:02Z",
            "2023-11-05T24:00:00Z",
            "2023-11-05T06:60:00Z",
            "2023-11-05T06:31:60Z",
            "2023-11-05T06:31:02.Z",
            "2023-11-05T06:31:02ZZ",
            "2023-11-05T06:31:02+0100",
            "2023-11-05T06:31:02+15:00",
            "0000-01-01T00:00:00Z",
            "é023-11-05T06:31:02Z",
            "+023-11-05T06:31:02Z",
        ] {
            assert_eq!(DateTime::parse(text), Err(DateTimeError::Malformed), "{text}");
            let value = DateTime::parse_value(text);
            assert_eq!(value.is_ok(), text == "2023-11-05", "{text}");
        }
        for text in ["2023-02-29", "2023-1-05", "2023-11", "2023-11-05ZZ", "2023-11-05T", "2023-11-05 ", "2023-11-05+1"]
        {
            assert_eq!(DateTime::parse_value(text), Err(DateTimeError::Malformed), "{text}");
        }
    }

    #[test]
    fn a_value_may_be_a_date_without_a_time() {
        for (input, output) in [
            ("2023-11-05", "2023-11-05T00:00:00Z"),
            ("2023-11-05Z", "2023-11-05T00:00:00Z"),
            ("2023-11-05+01:30", "2023-11-04T22:30:00Z"),
            ("2023-12-31-01:00", "2023-12-31T01:00:00Z"),
            ("2023-11-05T06:31:12-01:00", "2023-11-05T07:31:12Z"),
            ("2023-11-05T06:31", "2023-11-05T06:31:00Z"),
        ] {
            assert_eq!(DateTime::parse_value(input).unwrap().to_string(), output, "{input}");
        }
        let early = DateTimeError::OutOfRange("12/31/1600 23:00:00".to_owned());
        assert_eq!(DateTime::parse_value("1601-01-01+01:00"), Err(early));
    }

    #[test]
    fn instants_outside_the_range_are_named_as_the_service_names_them() {
        for (text, quoted) in [
            ("1600-01-01T00:00:00Z", "01/01/1600 00:00:00"),
            ("0001-01-01T00:00:00Z", "01/01/0001 00:00:00"),
            ("1600-12-31T23:59:59.9999999Z", "12/31/1600 23:59:59"),
        ] {
            assert_eq!(DateTime::parse(text), Err(DateTimeError::OutOfRange(quoted.to_owned())));
        }
    }

    #[test]
    fn the_unix_epoch_is_where_it_should_be() {
        let epoch = DateTime::from_system_time(SystemTime::UNIX_EPOCH);
        assert_eq!(epoch.to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(epoch.unix_seconds(), 0);
        let later = DateTime::from_system_time(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700));
        assert_eq!(later.to_string(), "1970-01-01T00:00:00.0000017Z");
        let before = SystemTime::UNIX_EPOCH - Duration::new(3, 700);
        for time in [SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700), before] {
            assert_eq!(DateTime::from_system_time(time).to_system_time(), time);
        }
        for end in [DateTime::MIN, DateTime::MAX] {
            assert_eq!(DateTime::from_system_time(end.to_system_time()), end);
        }
    }
}
