//! Durations as users write them: a number followed by s, m, h or d.

use std::time::Duration;

/// Parses a duration such as `90m`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let unit = match text.chars().next_back()? {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return None,
    };
    let count: u32 = text.get(..text.len() - 1)?.parse().ok()?;
    Some(Duration::from_secs(u64::from(count) * unit))
}
