//! Parses the conditions to rehearse from a list such as `busy=20%,deletion=10s,seed=7`.
//!
//! Each condition is one row of [`CONDITIONS`]; errors and the log are derived from it.

use model::limits::{REHEARSAL_LATENCY_SECONDS_MAX, REHEARSAL_SECONDS_MAX};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

struct Condition {
    name: &'static str,
    default: &'static str,
    form: &'static str,
    /// Parses and sets a value; returns `None` if it is invalid.
    set: fn(&mut RehearsalSettings, &str) -> Option<()>,
    /// Formats the value; returns `None` if the condition is off.
    format: fn(&RehearsalSettings) -> Option<String>,
}

macro_rules! condition {
    ($name:literal, $default:literal, $kind:ident, $field:ident) => {
        Condition {
            name: $name,
            default: $default,
            form: $kind::FORM,
            set: |settings, value| {
                settings.$field = if value == "off" { $kind::OFF } else { $kind::parse(value)? };
                Some(())
            },
            format: |settings| (settings.$field != $kind::OFF).then(|| $kind::format(settings.$field)),
        }
    };
}

const CONDITIONS: [Condition; 11] = [
    condition!("partition-pages", "100%", shares, partition_pages),
    condition!("empty-pages", "50%", shares, empty_pages),
    condition!("short-pages", "50%", shares, short_pages),
    condition!("creation", "2s", times, creation),
    condition!("deletion", "40s", times, deletion),
    condition!("busy", "5%", shares, busy),
    condition!("targets", "on", switches, targets),
    condition!("lost-answers", "2%", shares, lost_responses),
    condition!("latency", "20ms..200ms", latencies, latency),
    condition!("properties", "30s", times, properties),
    condition!("policies", "30s", times, policies),
];

/// The conditions of the cloud that a server rehearses. By default there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RehearsalSettings {
    pub(super) partition_pages: Share,
    pub(super) empty_pages: Share,
    pub(super) short_pages: Share,
    pub(super) creation: Duration,
    pub(super) deletion: Duration,
    pub(super) busy: Share,
    targets: bool,
    pub(super) lost_responses: Share,
    pub(super) latency: Option<(Duration, Duration)>,
    pub(super) properties: Duration,
    pub(super) policies: Duration,
    seed: Option<u64>,
}

/// The reason why a list of conditions is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RehearsalError {
    /// There is no such condition.
    Unknown(String),
    /// A condition, or the seed, appears twice.
    Duplicate(String),
    /// The value of a condition, or of the seed, is invalid.
    Value {
        /// The name of the condition, or `seed`.
        name: &'static str,
        /// The invalid value.
        value: String,
        /// A description of valid values.
        form: &'static str,
    },
}

impl fmt::Display for RehearsalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                let names: Vec<_> = CONDITIONS.iter().map(|condition| condition.name).collect();
                write!(f, "there is no condition {name:?}: give all, off, or some of {}, and seed=N", names.join(", "))
            }
            Self::Duplicate(name) => write!(f, "{name} is given twice: give it once"),
            Self::Value { name, value, form } => write!(f, "{value:?} is not a valid value for {name}: give {form}"),
        }
    }
}

impl std::error::Error for RehearsalError {}

impl RehearsalSettings {
    /// Parses a list of conditions. Each item is the name of a condition, optionally followed by `=` and a value;
    /// `all`, for every condition that the list does not name; or `seed=N`. The list can also be just `off`.
    ///
    /// ```
    /// let settings = rowhouse_server::RehearsalSettings::parse("all,busy=20%,latency=off,seed=7")?;
    /// assert!(settings.rehearses_anything());
    /// assert!(rowhouse_server::RehearsalSettings::parse("rain").is_err());
    /// # Ok::<(), rowhouse_server::RehearsalError>(())
    /// ```
    pub fn parse(list: &str) -> Result<Self, RehearsalError> {
        let mut settings = Self::default();
        if list.trim() == "off" {
            return Ok(settings);
        }
        let items = || {
            list.split(',').map(|item| {
                let (name, value) =
                    item.split_once('=').map_or((item, None), |(name, value)| (name, Some(value.trim())));
                (name.trim(), value)
            })
        };
        if items().any(|item| item == ("all", None)) {
            for condition in &CONDITIONS {
                condition.parse(&mut settings, condition.default)?;
            }
        }
        let mut seen = Vec::new();
        for (name, value) in items() {
            if seen.contains(&name) {
                return Err(RehearsalError::Duplicate(name.to_owned()));
            }
            seen.push(name);
            match (name, value, CONDITIONS.iter().find(|condition| condition.name == name)) {
                (_, value, Some(condition)) => condition.parse(&mut settings, value.unwrap_or(condition.default))?,
                ("all", None, _) => {}
                ("seed", value, _) => settings.seed = Some(read_seed(value.unwrap_or_default())?),
                _ => return Err(RehearsalError::Unknown(name.to_owned())),
            }
        }
        Ok(settings)
    }

    /// Returns true if any condition is on.
    pub fn rehearses_anything(&self) -> bool {
        CONDITIONS.iter().any(|condition| (condition.format)(self).is_some())
    }

    /// Returns true if requests beyond the targets of the service are refused. Throttling does this, and has its own
    /// settings.
    pub fn rehearses_targets(&self) -> bool {
        self.targets
    }

    /// Returns the given seed, or a random one that is short enough to type.
    pub(super) fn seed(&self) -> u64 {
        // Every `RandomState` has its own random keys.
        self.seed.unwrap_or_else(|| RandomState::new().hash_one(()) % 1_000_000)
    }
}

impl Condition {
    fn parse(&self, settings: &mut RehearsalSettings, value: &str) -> Result<(), RehearsalError> {
        let Self { name, form, .. } = *self;
        (self.set)(settings, value).ok_or_else(|| RehearsalError::Value { name, value: value.to_owned(), form })
    }
}

fn read_seed(value: &str) -> Result<u64, RehearsalError> {
    let form = "a whole number, such as seed=7";
    value.parse().map_err(|_| RehearsalError::Value { name: "seed", value: value.to_owned(), form })
}

/// Formats the conditions that are on, with their values.
impl fmt::Display for RehearsalSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = CONDITIONS.iter().filter_map(|condition| Some((condition.name, (condition.format)(self)?)));
        for (index, (name, value)) in values.enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// A share of all cases, in ten-thousandths of a percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Share(u32);

impl Share {
    const ALL: u32 = 1_000_000;

    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns true if a number belongs to the share. Over all `u32` numbers, the proportion of true results equals
    /// the share.
    pub(super) fn includes(self, number: u32) -> bool {
        (u64::from(number) * u64::from(Self::ALL)) >> 32 < u64::from(self.0)
    }
}

mod shares {
    use super::Share;

    pub(super) const FORM: &str = "a share from 0% to 100%, such as 5% or 0.5%";
    pub(super) const OFF: Share = Share(0);

    pub(super) fn parse(text: &str) -> Option<Share> {
        let (whole, part) = text.strip_suffix('%').map(|number| number.split_once('.').unwrap_or((number, "0")))?;
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > 4 {
            return None;
        }
        let millionths = whole.parse::<u32>().ok()?.checked_mul(10_000)? + format!("{part:0<4}").parse::<u32>().ok()?;
        (millionths <= Share::ALL).then_some(Share(millionths))
    }

    pub(super) fn format(share: Share) -> String {
        let (whole, part) = (share.0 / 10_000, share.0 % 10_000);
        let part = format!(".{part:04}");
        format!("{whole}{}%", part.trim_end_matches('0').trim_end_matches('.'))
    }
}

mod times {
    use super::{Duration, REHEARSAL_SECONDS_MAX};

    pub(super) const FORM: &str = "a time up to an hour, such as 40s, 500ms or 2m";
    pub(super) const OFF: Duration = Duration::ZERO;

    pub(super) fn parse(text: &str) -> Option<Duration> {
        let unit = text.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = text.split_at_checked(unit)?;
        let number: u64 = number.parse().ok()?;
        let time = match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            _ => return None,
        };
        (time <= Duration::from_secs(REHEARSAL_SECONDS_MAX)).then_some(time)
    }

    pub(super) fn format(time: Duration) -> String {
        let milliseconds = time.as_millis();
        if milliseconds.is_multiple_of(1000) {
            format!("{}s", milliseconds / 1000)
        } else {
            format!("{milliseconds}ms")
        }
    }
}

mod latencies {
    use super::{Duration, REHEARSAL_LATENCY_SECONDS_MAX, times};

    pub(super) const FORM: &str = "a time up to 30s, or two for a range, such as 50ms or 20ms..200ms";
    pub(super) const OFF: Option<(Duration, Duration)> = None;

    #[allow(clippy::option_option, reason = "a latency of zero means none, and an invalid value must not mean zero")]
    pub(super) fn parse(text: &str) -> Option<Option<(Duration, Duration)>> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let (least, most) = (times::parse(least)?, times::parse(most)?);
        let is_range = least <= most && most <= Duration::from_secs(REHEARSAL_LATENCY_SECONDS_MAX);
        is_range.then_some((!most.is_zero()).then_some((least, most)))
    }

    pub(super) fn format(latency: Option<(Duration, Duration)>) -> String {
        let (least, most) = latency.unwrap_or_default();
        let (least, most) = (times::format(least), times::format(most));
        if least == most { least } else { format!("{least}..{most}") }
    }
}

mod switches {
    pub(super) const FORM: &str = "on or off";
    pub(super) const OFF: bool = false;

    pub(super) fn parse(text: &str) -> Option<bool> {
        (text == "on").then_some(true)
    }

    pub(super) fn format(_: bool) -> String {
        "on".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(list: &str) -> String {
        RehearsalSettings::parse(list).unwrap().to_string()
    }

    #[test]
    fn a_list_is_read_as_it_is_shown() {
        for (list, expected) in [
            ("partition-pages", "partition-pages=100%"),
            (" busy = 20% , deletion=90s", "deletion=90s,busy=20%"),
            ("busy=0.0300%", "busy=0.03%"),
            ("deletion=0s,creation", "creation=2s"),
            ("busy=100%,lost-answers=0.5%", "busy=100%,lost-answers=0.5%"),
            ("deletion=2m,properties=1500ms", "deletion=120s,properties=1500ms"),
            ("latency=50ms", "latency=50ms"),
            ("latency=0s..1s", "latency=0s..1s"),
            ("targets,seed=7", "targets=on"),
            ("busy=0%,latency=0ms,deletion=off,targets=off", ""),
            ("off", ""),
        ] {
            let expected = if expected.is_empty() { String::new() } else { expected.to_owned() };
            assert_eq!(shown(list), expected, "{list}");
            if !expected.is_empty() {
                assert_eq!(shown(&expected), expected);
            }
        }
    }

    #[test]
    fn all_is_what_the_list_does_not_name() {
        let all = "partition-pages=100%,empty-pages=50%,short-pages=50%,creation=2s,deletion=40s,busy=5%,targets=on,\
                   lost-answers=2%,latency=20ms..200ms,properties=30s,policies=30s";
        assert_eq!(shown("all"), all);
        assert_eq!(shown("busy=1%,all,targets=off"), all.replace("busy=5%,targets=on", "busy=1%"));
        let settings = RehearsalSettings::parse("all,seed=12").unwrap();
        assert!(settings.rehearses_anything() && settings.rehearses_targets());
        assert_eq!(settings.seed(), 12);
        assert!(!RehearsalSettings::parse("seed=12").unwrap().rehearses_anything());
        assert!(!RehearsalSettings::default().rehearses_anything());
    }

    #[test]
    fn bad_lists_are_refused_with_what_to_give() {
        let error = |list| RehearsalSettings::parse(list).unwrap_err().to_string();
        let unknown = error("busy,rain=5%");
        assert!(
            unknown.contains("\"rain\"") && unknown.contains("lost-answers") && unknown.contains("seed=N"),
            "{unknown}"
        );
        for list in ["", "busy,", ",busy", "all=1", "all,off", "BUSY", "5%", "=5%"] {
            assert!(error(list).starts_with("there is no condition"), "{list}: {}", error(list));
        }
        assert_eq!(error("busy,busy=3%"), "busy is given twice: give it once");
        for list in [
            "busy=5",
            "busy=",
            "busy=%",
            "busy=101%",
            "busy=-1%",
            "busy=1e1%",
            "busy=.5%",
            "busy=0.00001%",
            "busy=NaN%",
            "busy=99999999999%",
            "busy=500000%",
            "deletion=40",
            "deletion=s",
            "deletion=61m",
            "deletion=-1s",
            "deletion=1h",
            "deletion=99999999999999999999s",
            "deletion=9999999999999999m",
            "deletion=4é",
            "latency=2s..1s",
            "latency=31s",
            "latency=1s..",
            "latency=..1s",
            "latency=1s..2s..3s",
            "targets=5",
            "seed",
            "seed=",
            "seed=-1",
            "seed=x",
            "busy==5%",
        ] {
            assert!(error(list).contains("give "), "{list}: {}", error(list));
            assert!(error(list).contains("is not a valid value for"), "{list}: {}", error(list));
        }
    }

    #[test]
    fn shares_are_shares() {
        let count = |share: Share| (0..10_000_u32).filter(|n| share.includes(n * 429_496)).count();
        for (text, expected) in [("0%", 0), ("0.5%", 50), ("5%", 500), ("50%", 5_000), ("100%", 10_000)] {
            assert!(count(shares::parse(text).unwrap()).abs_diff(expected) <= 1, "{text}");
        }
        assert!(Share(Share::ALL).includes(u32::MAX) && !Share(0).includes(0));
    }
}
