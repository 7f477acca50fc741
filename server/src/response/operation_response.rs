//! The response of an operation, before it becomes an HTTP response or a part of a batch.

use super::segments::{ByteStream, Pieces};
use crate::failure::Failure;
use bytes::Bytes;
use http::HeaderMap;
use model::DateTime;
use std::borrow::Cow;
use wire::negotiation::Preference;

#[derive(Debug, Default)]
pub(crate) struct OperationResponse {
    pub(crate) status: u16,
    pub(crate) etag: Option<DateTime>,
    pub(crate) location: Option<Vec<u8>>,
    /// Whether the URL is also sent as `DataServiceId`.
    pub(crate) has_data_service_id: bool,
    pub(crate) preference: Option<Preference>,
    pub(crate) continuation: Vec<(&'static str, String)>,
    pub(crate) content: Option<(Cow<'static, str>, Vec<Bytes>)>,
    pub(crate) headers: HeaderMap,
    /// The rest of the content, which is sent piece by piece.
    pub(crate) stream: Option<ByteStream>,
    /// The failure of a batch. The status of the response is still 202; the client finds the error in the body.
    pub(crate) failed_by: Option<Box<Failure>>,
}

impl OperationResponse {
    pub(crate) fn content_bytes(&self) -> usize {
        self.content.iter().flat_map(|(_, segments)| segments).map(Bytes::len).sum()
    }

    pub(crate) fn no_content() -> Self {
        Self { status: 204, ..Self::default() }
    }

    pub(crate) fn ok(content_type: &'static str, body: Vec<Bytes>) -> Self {
        Self { status: 200, content: Some((content_type.into(), body)), ..Self::default() }
    }

    /// Returns 200 with a body that is sent piece by piece.
    pub(crate) fn stream(content_type: &'static str, pieces: Pieces) -> Self {
        Self { stream: Some(ByteStream(pieces)), ..Self::ok(content_type, Vec::new()) }
    }

    /// Returns 202 with the responses to the operations of a batch.
    pub(crate) fn batch(boundary: &str, body: Vec<Bytes>) -> Self {
        let content_type = format!("multipart/mixed; boundary={boundary}");
        Self { status: 202, content: Some((content_type.into(), body)), ..Self::default() }
    }

    pub(crate) fn xml(document: Vec<u8>) -> Self {
        Self::ok("application/xml", vec![Bytes::from(document)])
    }

    /// Returns 200 with a number as text, and the continuation tokens of what was not counted.
    pub(crate) fn number(number: u64, continuation: Vec<(&'static str, String)>) -> Self {
        Self { continuation, ..Self::ok("text/plain;charset=utf-8", vec![Bytes::from(number.to_string())]) }
    }

    pub(crate) fn accepted() -> Self {
        Self { status: 202, ..Self::default() }
    }

    pub(crate) fn preflight(headers: HeaderMap) -> Self {
        Self { status: 200, headers, ..Self::default() }
    }

    /// Returns the response to a creation: 201 with the body from `content`, or 204, as the client prefers (02 §4.3,
    /// §5.1).
    pub(crate) fn created(
        preference: Option<Preference>,
        location: Vec<u8>,
        content_type: &'static str,
        content: impl FnOnce() -> Vec<u8>,
    ) -> Self {
        let location = Some(location);
        match preference {
            Some(Preference::NoContent) => {
                Self { status: 204, location, has_data_service_id: true, preference, ..Self::default() }
            }
            None | Some(Preference::Content) => {
                let content = Some((content_type.into(), vec![Bytes::from(content())]));
                Self { status: 201, location, preference, content, ..Self::default() }
            }
        }
    }
}
