//! Service statistics as XML: the body of Get Table Service Stats (specification 10 §6).
//!
//! This module must not depend on how a secondary endpoint is replicated.

use crate::xml::{BYTE_ORDER_MARK, DECLARATION, Element};
use std::time::SystemTime;

/// The state of the replication to the secondary endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeoReplication {
    /// Reads from the secondary endpoint see all writes before this time.
    Live(SystemTime),
    /// The secondary endpoint is being filled for the first time.
    Bootstrap,
    /// The secondary endpoint is unreachable.
    Unavailable,
}

/// Parses the XML as a client does. Returns `None` if it is malformed.
pub fn read(body: &[u8]) -> Option<GeoReplication> {
    let root = Element::parse(body).ok()?;
    let child = |element: &Element, name: &str| element.children.iter().position(|child| *child.name == *name);
    let replication = root.children.get(child(&root, "GeoReplication")?)?;
    let text = |name| replication.children.get(child(replication, name)?).map(|child| child.text.trim());
    match text("Status")? {
        "live" => httpdate::parse_http_date(text("LastSyncTime")?).ok().map(GeoReplication::Live),
        "bootstrap" => Some(GeoReplication::Bootstrap),
        "unavailable" => Some(GeoReplication::Unavailable),
        _ => None,
    }
}

/// Writes the XML as the service does. The text format cannot represent times before 1970, so an earlier time is
/// written as the start of 1970.
pub fn write(replication: GeoReplication) -> Vec<u8> {
    let (status, time) = match replication {
        GeoReplication::Live(time) => ("live", httpdate::fmt_http_date(time.max(SystemTime::UNIX_EPOCH))),
        GeoReplication::Bootstrap => ("bootstrap", String::new()),
        GeoReplication::Unavailable => ("unavailable", String::new()),
    };
    format!(
        "{BYTE_ORDER_MARK}{DECLARATION}<StorageServiceStats><GeoReplication><Status>{status}</Status>\
         <LastSyncTime>{time}</LastSyncTime></GeoReplication></StorageServiceStats>"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_document_to_the_byte() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_608_310_736_999);
        for (replication, middle) in [
            (GeoReplication::Live(time), "live</Status><LastSyncTime>Fri, 18 Dec 2020 16:58:56 GMT"),
            (GeoReplication::Bootstrap, "bootstrap</Status><LastSyncTime>"),
            (GeoReplication::Unavailable, "unavailable</Status><LastSyncTime>"),
        ] {
            let expected = format!(
                "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceStats><GeoReplication><Status>{middle}</LastSyncTime></GeoReplication></StorageServiceStats>"
            );
            assert_eq!(String::from_utf8(write(replication)).unwrap(), expected);
            let whole_seconds = SystemTime::UNIX_EPOCH + Duration::from_secs(1_608_310_736);
            let read_again = match replication {
                GeoReplication::Live(_) => GeoReplication::Live(whole_seconds),
                other => other,
            };
            assert_eq!(read(expected.as_bytes()), Some(read_again));
        }
        let before = write(GeoReplication::Live(SystemTime::UNIX_EPOCH - Duration::from_secs(1)));
        assert_eq!(read(&before), Some(GeoReplication::Live(SystemTime::UNIX_EPOCH)));
        for other in ["", "<StorageServiceStats/>", "<a><GeoReplication><Status>new</Status></GeoReplication></a>"] {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
    }
}
