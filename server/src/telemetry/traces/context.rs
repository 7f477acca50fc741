//! The trace that a client has started, from the headers `traceparent` and `tracestate` (W3C Trace Context).

use http::HeaderMap;
use model::limits::TRACE_STATE_BYTES_MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientSpan {
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    pub(super) is_sampled: bool,
    /// The value of `tracestate`, which is passed on unchanged.
    pub(super) state: Option<String>,
}

impl ClientSpan {
    /// Returns the span that the headers name, or `None` if they name none or are malformed.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all("traceparent").iter();
        let (Some(parent), None) = (parents.next(), parents.next()) else { return None };
        let (trace_id, span_id, is_sampled) = parse(parent.to_str().ok()?)?;
        let state = headers.get("tracestate").and_then(|state| state.to_str().ok());
        let state = state.filter(|state| !state.is_empty() && state.len() <= TRACE_STATE_BYTES_MAX).map(str::to_owned);
        Some(Self { trace_id, span_id, is_sampled, state })
    }
}

/// Parses version, trace, span and flags, all in lowercase hexadecimal digits. Later versions may append more parts.
fn parse(text: &str) -> Option<(u128, u64, bool)> {
    let mut parts = text.trim().split('-');
    let mut hex = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits)?;
        part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(part)
    };
    let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
    let is_first = version == "00";
    if version == "ff" || (is_first && parts.next().is_some()) {
        return None;
    }
    let trace = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
    let span = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some((trace, span, flags & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn parents_are_read_by_the_letter() {
        const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
        const SPAN: &str = "b7ad6b7169203331";
        for (parent, expected) in [
            (format!("00-{TRACE}-{SPAN}-01"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-00"), Some(false)),
            (format!("cc-{TRACE}-{SPAN}-03-more"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-01-more"), None),
            (format!("ff-{TRACE}-{SPAN}-01"), None),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), None),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), None),
            (format!("00-{TRACE}-{SPAN}"), None),
            (format!("00-{TRACE}-{SPAN}-+1"), None),
            (String::new(), None),
        ] {
            let headers = HeaderMap::from_iter([(
                http::HeaderName::from_static("traceparent"),
                HeaderValue::from_str(&parent).unwrap(),
            )]);
            let remote = ClientSpan::from_headers(&headers);
            assert_eq!(remote.as_ref().map(|remote| remote.is_sampled), expected, "{parent}");
            if let Some(remote) = remote {
                assert_eq!(
                    (remote.trace_id, remote.span_id),
                    (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331)
                );
            }
        }
    }
}
