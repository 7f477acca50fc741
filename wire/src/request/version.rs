//! Service versions: the `x-ms-version` of a request and the features that depend on it (specification 02 §7).
//!
//! This module must not depend on what an operation does with a version.

use crate::reason::{Reason, ReasonKind};
use std::fmt;

/// A service version: a date such as 2019-02-02.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    year: u16,
    month: u8,
    day: u8,
}

impl Version {
    /// The version of requests that name none: the service as it was before versions had numbers.
    pub const NONE: Self = Self::new(0, 0, 0);
    /// The oldest version that requests can name.
    pub const OLDEST: Self = Self::new(2009, 4, 14);
    /// From this version on, responses include their version.
    pub const VERSION_HEADER: Self = Self::new(2009, 9, 19);
    /// The first version with upserts and projection.
    pub const UPSERT: Self = Self::new(2011, 8, 18);
    /// The first version with shared access signatures and stored access policies for tables.
    pub const TABLE_SAS: Self = Self::new(2012, 2, 12);
    /// The first version with JSON and `Prefer`.
    pub const JSON: Self = Self::new(2013, 8, 15);
    /// The first version with partial updates of service properties, and with CORS rules.
    pub const PARTIAL_PROPERTIES: Self = Self::new(2013, 8, 15);
    /// From this version on, the string to sign of a table SAS includes the service.
    pub const SERVICE_IN_SAS: Self = Self::new(2015, 2, 21);
    /// The first version with account SAS, and with IP address and protocol restrictions in every SAS.
    pub const ACCOUNT_SAS: Self = Self::new(2015, 4, 5);
    /// The first version with `odata.etag` at minimal metadata.
    pub const ETAG_IN_MINIMAL: Self = Self::new(2015, 4, 5);
    /// The first version without Atom.
    pub const NO_ATOM: Self = Self::new(2015, 12, 11);
    /// The first version with more specific errors, according to the vendor's list of versions.
    pub const SPECIFIC_ERRORS: Self = Self::new(2016, 5, 31);
    /// From this version on, the string to sign of an account SAS has a line for the encryption scope.
    pub const ENCRYPTION_SCOPE: Self = Self::new(2020, 12, 6);
    /// From this version on, anonymous requests are challenged with 401.
    pub const CHALLENGE: Self = Self::new(2020, 12, 6);
    /// The first version with user delegation keys and signatures made with them.
    pub const USER_DELEGATION: Self = Self::new(2025, 7, 5);

    const fn new(year: u16, month: u8, day: u8) -> Self {
        Self { year, month, day }
    }

    /// Parses a version that this service accepts: a known one, or any date after the newest known one.
    ///
    /// Client libraries are often upgraded before servers, so a version newer than any known one is treated as the
    /// newest known one.
    pub fn parse(text: &str) -> Option<Self> {
        let version = Self::parse_date(text)?;
        let newest = KNOWN.last()?;
        (version > *newest || KNOWN.contains(&version)).then_some(version)
    }

    /// Returns why [`Self::parse`] accepts no such version.
    pub fn unknown(text: &str) -> Reason {
        let detail = match Self::parse_date(text) {
            None => "A version is a date such as 2019-02-02.".to_owned(),
            Some(version) => match KNOWN.iter().rev().find(|known| **known < version) {
                None => format!("The oldest version is {}.", Self::OLDEST),
                Some(before) => format!("The service has no version of this date; the previous version is {before}."),
            },
        };
        ReasonKind::VersionUnknown.because(detail).quoting(text)
    }

    fn parse_date(text: &str) -> Option<Self> {
        let number = |range: std::ops::Range<usize>| -> Option<u16> {
            let digits = text.get(range)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let dashes = text.len() == 10 && text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
        if !dashes {
            return None;
        }
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        Some(Self { year, month: u8::try_from(month).ok()?, day: u8::try_from(day).ok()? })
    }
}

impl Version {
    /// Whether responses have the service's first form: Atom and its errors in an older layout and without details in
    /// their media types, and no `X-Content-Type-Options`.
    ///
    /// UNVERIFIED (03 §5.5): versions other than 2011-08-18, the only one before 2013-08-15 with recorded exchanges. A
    /// client library that was written for 2012-02-12 cannot read the first form.
    pub fn has_first_form(self) -> bool {
        self < Self::TABLE_SAS
    }

    /// Returns the text form. The year always has four digits.
    pub fn text(self) -> [u8; 10] {
        let digit = |number: u16| b'0' + u8::try_from(number % 10).unwrap_or(0);
        let (year, month, day) = (self.year, u16::from(self.month), u16::from(self.day));
        let [y1, y2, y3, y4] = [1000, 100, 10, 1].map(|place| digit(year / place));
        [y1, y2, y3, y4, b'-', digit(month / 10), digit(month), b'-', digit(day / 10), digit(day)]
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).expect("the output is ASCII"))
    }
}

/// The versions listed in the documentation or by a client library, oldest first (02 §7).
const KNOWN: &[Version] = &[
    Version::OLDEST,
    Version::new(2009, 7, 17),
    Version::VERSION_HEADER,
    Version::UPSERT,
    Version::TABLE_SAS,
    Version::JSON,
    Version::new(2014, 2, 14),
    Version::SERVICE_IN_SAS,
    Version::ETAG_IN_MINIMAL,
    Version::new(2015, 7, 8),
    Version::NO_ATOM,
    Version::new(2016, 5, 31),
    Version::new(2017, 4, 17),
    Version::new(2017, 7, 29),
    Version::new(2017, 11, 9),
    Version::new(2018, 3, 28),
    Version::new(2018, 11, 9),
    Version::new(2019, 2, 2),
    Version::new(2019, 7, 7),
    Version::new(2019, 10, 10),
    Version::new(2019, 12, 12),
    Version::new(2020, 2, 10),
    Version::new(2020, 4, 8),
    Version::new(2020, 6, 12),
    Version::new(2020, 8, 4),
    Version::new(2020, 10, 2),
    Version::CHALLENGE,
    Version::new(2021, 2, 12),
    Version::new(2021, 4, 10),
    Version::new(2021, 6, 8),
    Version::new(2021, 8, 6),
    Version::new(2021, 10, 4),
    Version::new(2021, 12, 2),
    Version::new(2022, 11, 2),
    Version::new(2023, 1, 3),
    Version::new(2023, 5, 3),
    Version::new(2023, 8, 3),
    Version::new(2023, 11, 3),
    Version::new(2024, 2, 4),
    Version::new(2024, 5, 4),
    Version::new(2024, 8, 4),
    Version::new(2024, 11, 4),
    Version::new(2025, 1, 5),
    Version::new(2025, 5, 5),
    Version::USER_DELEGATION,
    Version::new(2025, 11, 5),
    Version::new(2026, 2, 6),
    Version::new(2026, 4, 6),
    Version::new(2026, 6, 6),
    Version::new(2026, 10, 6),
    Version::new(2026, 12, 6),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_newer_versions_are_accepted() {
        for text in ["2009-04-14", "2019-02-02", "2023-05-03", "2026-12-06", "2026-12-07", "2031-01-01", "9999-12-31"] {
            assert_eq!(Version::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "2019-02-03",
            "2023-05-04",
            "2026-10-07",
            "2008-01-01",
            "2019-2-2",
            "20190202",
            "2030-13-01",
            "2030-01-32",
            "2030-00-01",
            "latest",
            "２０３０-01-01",
        ] {
            assert_eq!(Version::parse(text), None, "{text}");
            let detail = match text {
                "2008-01-01" => "The oldest version is 2009-04-14.",
                "2019-02-03" => "The service has no version of this date; the previous version is 2019-02-02.",
                "2023-05-04" | "2026-10-07" => "The service has no version of this date; ",
                _ => "A version is a date such as 2019-02-02.",
            };
            let line = Version::unknown(text).line(false);
            assert!(line.starts_with(&format!("version-unknown: {detail}")), "{text}: {line}");
        }
        assert!(KNOWN.is_sorted());
    }
}
