//! The encoding of the service properties of an account: a version, the settings in a few bytes, and the CORS rules as
//! strings.
//!
//! ```text
//! version = 1 (1 byte)
//! logging:       format version (1 byte: 1 or 2), flags (1 byte: 1 read, 2 write, 4 delete), retention
//! hour metrics:  level (1 byte: 0 off, 1 totals, 2 totals and operations), retention
//! minute metrics: as for hour metrics
//! rules:         their number (1 byte), and for each four strings (origins, methods, allowed headers, exposed headers;
//!                a length of 2 bytes and UTF-8) and the maximum age in seconds (4 bytes)
//! retention = days (2 bytes; 0: forever)
//! ```
//!
//! Every durable engine stores this value. Numbers are big-endian. The bytes come from storage and may be damaged, so
//! decoding can fail but never panics. Decoded values pass through the same constructors as clients' values, so the
//! same limits apply.

use model::service_properties::{Logging, Metrics, MetricsLevel, RetentionDays};
use model::{CorsRule, CorsRules, ServiceProperties};

const VERSION: u8 = 1;
/// Version 1.0 of the log format, the only version of the Table service.
const LOG_VERSION: u8 = 1;
const READ: u8 = 1;
const WRITE: u8 = 2;
const DELETE: u8 = 4;

/// Returns the stored form of service properties.
pub fn encode(properties: &ServiceProperties) -> Vec<u8> {
    let mut out = vec![VERSION];
    let Logging { read, write, delete, retention } = properties.logging;
    out.push(LOG_VERSION);
    let flags = [(read, READ), (write, WRITE), (delete, DELETE)];
    out.push(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    encode_retention(&mut out, retention);
    encode_metrics(&mut out, properties.hour_metrics);
    encode_metrics(&mut out, properties.minute_metrics);
    let rules = properties.cors.as_slice();
    out.push(u8::try_from(rules.len()).expect("there are at most five rules"));
    for rule in rules {
        encode_text(&mut out, &rule.origins());
        encode_text(&mut out, &rule.methods());
        encode_text(&mut out, &rule.allowed_headers().to_string());
        encode_text(&mut out, &rule.exposed_headers().to_string());
        out.extend_from_slice(&rule.max_age_seconds().to_be_bytes());
    }
    out
}

fn encode_metrics(out: &mut Vec<u8>, metrics: Metrics) {
    out.push(match metrics.level {
        MetricsLevel::Off => 0,
        MetricsLevel::Service => 1,
        MetricsLevel::ServiceAndApi => 2,
    });
    encode_retention(out, metrics.retention);
}

fn encode_retention(out: &mut Vec<u8>, days: Option<RetentionDays>) {
    out.extend_from_slice(&days.map_or(0, RetentionDays::get).to_be_bytes());
}

fn encode_text(out: &mut Vec<u8>, text: &str) {
    let bytes = u16::try_from(text.len()).expect("all rules together have at most 2 KiB");
    out.extend_from_slice(&bytes.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Decodes properties. Returns `None` if the bytes are damaged or were written by a newer version.
pub fn decode(value: &[u8]) -> Option<ServiceProperties> {
    let mut reader = Reader(value);
    if reader.byte()? != VERSION {
        return None;
    }
    // An earlier version of this server accepted version 2.0.
    if !(LOG_VERSION..=2).contains(&reader.byte()?) {
        return None;
    }
    let flags = Some(reader.byte()?).filter(|flags| flags & !(READ | WRITE | DELETE) == 0)?;
    let is_set = |flag| flags & flag != 0;
    let retention = reader.retention()?;
    let logging = Logging { read: is_set(READ), write: is_set(WRITE), delete: is_set(DELETE), retention };
    let (hour_metrics, minute_metrics) = (reader.metrics()?, reader.metrics()?);
    let rules: Option<Vec<_>> = (0..reader.byte()?).map(|_| reader.rule()).collect();
    let cors = CorsRules::new(rules?).ok()?;
    reader.0.is_empty().then_some(ServiceProperties { logging, hour_metrics, minute_metrics, cors })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn text(&mut self) -> Option<&'a str> {
        let bytes = usize::from(u16::from_be_bytes(self.array()?));
        let (text, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    /// `Some(None)` means that data is kept forever.
    #[allow(clippy::option_option, reason = "the outer one is for damage, the inner one is the value")]
    fn retention(&mut self) -> Option<Option<RetentionDays>> {
        match u16::from_be_bytes(self.array()?) {
            0 => Some(None),
            days => RetentionDays::new(days).map(Some),
        }
    }

    fn metrics(&mut self) -> Option<Metrics> {
        let level = match self.byte()? {
            0 => MetricsLevel::Off,
            1 => MetricsLevel::Service,
            2 => MetricsLevel::ServiceAndApi,
            _ => return None,
        };
        Some(Metrics { level, retention: self.retention()? })
    }

    fn rule(&mut self) -> Option<CorsRule> {
        let (origins, methods) = (self.text()?, self.text()?);
        let (allowed, exposed) = (self.text()?, self.text()?);
        CorsRule::new(origins, methods, allowed, exposed, u32::from_be_bytes(self.array()?)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties() -> ServiceProperties {
        let rules = vec![
            CorsRule::new("*", "GET", "", "", 0).unwrap(),
            CorsRule::new("https://é.example", "PUT", "a,b*", "c", 0x0102_0304).unwrap(),
        ];
        let logging = Logging { write: true, retention: RetentionDays::new(300), ..Logging::default() };
        let hour_metrics = Metrics { level: MetricsLevel::ServiceAndApi, retention: RetentionDays::new(7) };
        let minute_metrics = Metrics { level: MetricsLevel::Service, retention: None };
        ServiceProperties { logging, hour_metrics, minute_metrics, cors: CorsRules::new(rules).unwrap() }
    }

    #[test]
    fn the_format_is_pinned() {
        let fresh = ServiceProperties::default();
        assert_eq!(encode(&fresh), b"\x01\x01\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(decode(b"\x01\x01\0\0\0\0\0\0\0\0\0\0"), Some(fresh));
        let pinned = b"\x01\x01\x02\x01\x2c\x02\0\x07\x01\0\0\x02\
            \0\x01*\0\x03GET\0\0\0\0\0\0\0\0\
            \0\x12https://\xc3\xa9.example\0\x03PUT\0\x04a,b*\0\x01c\x01\x02\x03\x04";
        assert_eq!(encode(&properties()).escape_ascii().to_string(), pinned.escape_ascii().to_string());
        assert_eq!(decode(pinned), Some(properties()));
        let mut old = pinned.to_vec();
        old[1] = 2;
        assert_eq!(decode(&old), Some(properties()));
    }

    #[test]
    fn damage_is_detected() {
        let value = encode(&properties());
        for length in 0..value.len() {
            assert_eq!(decode(&value[..length]), None, "cut to {length}");
        }
        for index in 0..value.len() {
            let mut changed = value.clone();
            changed[index] ^= 0x80;
            // A changed byte may produce another valid value, but never a panic.
            assert_ne!(decode(&changed), Some(properties()), "byte {index}");
        }
        assert_eq!(decode(&[value, vec![0]].concat()), None);
    }
}
