//! Requests for a table of the change feed as server-sent events.

use super::table_of;
use model::ChangesTable;
use wire::Target;

/// Returns whether a client accepts server-sent events.
pub(crate) fn accepts_events(accept: &str) -> bool {
    let media_type = |range: &str| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    accept.split(',').any(|range| media_type(range) == "text/event-stream")
}

/// Returns whether a URL contains the name of a table of the change feed.
pub(crate) fn has_changes(target: &Target<'_>) -> bool {
    target
        .resource()
        .is_ok_and(|resource| table_of(&resource).is_some_and(|name| ChangesTable::from_name(name).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_lists_events_accepts_them() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream; q=0.9", true),
            ("application/json", false),
            ("text/*", false),
            ("", false),
        ] {
            assert_eq!(accepts_events(accept), expected, "{accept}");
        }
    }
}
