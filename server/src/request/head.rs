//! The headers that determine how a request is handled.
//!
//! [`Head`] finds all of them in one pass; a lookup by name would hash each name, whether or not the header is present.
//! [`Headers`] contains those on which an operation depends, as strings; each part of a batch has its own.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use std::borrow::Cow;
use wire::reason::ReasonKind;
use wire::{ErrorCode, Headers, ServiceError};

/// The headers that every request may have. For a header in several lines, this is the first line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Head<'r> {
    pub(crate) accept: Option<&'r HeaderValue>,
    pub(crate) is_accept_repeated: bool,
    pub(crate) authorization: Option<&'r HeaderValue>,
    pub(crate) client_request_id: Option<&'r HeaderValue>,
    pub(crate) content_md5: Option<&'r HeaderValue>,
    pub(crate) content_type: Option<&'r HeaderValue>,
    pub(crate) data_service_version: Option<&'r HeaderValue>,
    pub(crate) date: Option<&'r HeaderValue>,
    pub(crate) explain: Option<&'r HeaderValue>,
    pub(crate) host: Option<&'r HeaderValue>,
    pub(crate) is_host_repeated: bool,
    pub(crate) if_match: Option<&'r HeaderValue>,
    pub(crate) if_none_match: Option<&'r HeaderValue>,
    pub(crate) max_data_service_version: Option<&'r HeaderValue>,
    pub(crate) method: Option<&'r HeaderValue>,
    pub(crate) prefer: Option<&'r HeaderValue>,
    pub(crate) transfer_encoding: Option<&'r HeaderValue>,
    pub(crate) is_transfer_encoding_repeated: bool,
    pub(crate) version: Option<&'r HeaderValue>,
    pub(crate) x_ms_date: Option<&'r HeaderValue>,
}

impl<'r> Head<'r> {
    pub(crate) fn from_headers(headers: &'r HeaderMap) -> Self {
        let mut head = Self::default();
        for (name, value) in headers {
            let slot = match name.as_str() {
                "accept" => {
                    head.is_accept_repeated = head.accept.is_some();
                    &mut head.accept
                }
                "authorization" => &mut head.authorization,
                "content-md5" => &mut head.content_md5,
                "content-type" => &mut head.content_type,
                "dataserviceversion" => &mut head.data_service_version,
                "date" => &mut head.date,
                "host" => {
                    head.is_host_repeated = head.host.is_some();
                    &mut head.host
                }
                "if-match" => &mut head.if_match,
                "if-none-match" => &mut head.if_none_match,
                "maxdataserviceversion" => &mut head.max_data_service_version,
                "prefer" => &mut head.prefer,
                "transfer-encoding" => {
                    head.is_transfer_encoding_repeated = head.transfer_encoding.is_some();
                    &mut head.transfer_encoding
                }
                "x-http-method" => &mut head.method,
                "x-ms-client-request-id" => &mut head.client_request_id,
                "x-ms-date" => &mut head.x_ms_date,
                "x-ms-rowhouse-explain" => &mut head.explain,
                "x-ms-version" => &mut head.version,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
        head
    }
}

/// Reads the headers on which the operation depends. `accept` is the result of [`joined_accept`].
pub(crate) fn operation_headers<'r>(head: &Head<'r>, accept: Option<&'r str>) -> Result<Headers<'r>, ServiceError> {
    let text = |value: Option<&'r HeaderValue>, name: &str| {
        value.map(HeaderValue::to_str).transpose().map_err(|_| not_ascii(name))
    };
    Ok(Headers {
        accept,
        content_type: text(head.content_type, "Content-Type")?,
        if_match: text(head.if_match, "If-Match")?,
        if_none_match: text(head.if_none_match, "If-None-Match")?,
        prefer: text(head.prefer, "Prefer")?,
        data_service_version: text(head.data_service_version, "DataServiceVersion")?,
        max_data_service_version: text(head.max_data_service_version, "MaxDataServiceVersion")?,
        explain: head.explain.is_some_and(|value| value == "1"),
    })
}

fn not_ascii(name: &str) -> ServiceError {
    let detail = format!("The header {name} contains characters other than visible ASCII.");
    ServiceError::from(ErrorCode::InvalidHeaderValue).because(ReasonKind::HeaderText.because(detail))
}

pub(crate) fn joined_accept<'r>(headers: &'r HeaderMap, head: &Head<'r>) -> Result<Option<Cow<'r, str>>, ServiceError> {
    let text = |line: &'r HeaderValue| line.to_str().map_err(|_| not_ascii("Accept"));
    let Some(first) = head.accept else { return Ok(None) };
    let mut joined = Cow::Borrowed(text(first)?);
    if head.is_accept_repeated {
        for line in headers.get_all(ACCEPT).into_iter().skip(1) {
            joined = Cow::Owned(format!("{joined},{}", text(line)?));
        }
    }
    Ok(Some(joined))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    #[test]
    fn the_first_line_of_each_header_counts() {
        let names = [
            "Accept",
            "Authorization",
            "x-ms-client-request-id",
            "Content-MD5",
            "Content-Type",
            "DataServiceVersion",
            "Date",
            "Host",
            "If-Match",
            "If-None-Match",
            "MaxDataServiceVersion",
            "X-HTTP-Method",
            "Prefer",
            "Transfer-Encoding",
            "x-ms-version",
            "x-ms-date",
            "x-ms-rowhouse-explain",
        ];
        let mut headers = HeaderMap::new();
        for line in ["first", "second"] {
            for (name, number) in names.iter().zip(0..) {
                let value = HeaderValue::from_str(&format!("{line} {number}")).unwrap();
                headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
            }
            headers.append("another", HeaderValue::from_static("value"));
        }
        let head = Head::from_headers(&headers);
        assert!(head.is_accept_repeated && head.is_host_repeated && head.is_transfer_encoding_repeated);
        let picked = [
            head.accept,
            head.authorization,
            head.client_request_id,
            head.content_md5,
            head.content_type,
            head.data_service_version,
            head.date,
            head.host,
            head.if_match,
            head.if_none_match,
            head.max_data_service_version,
            head.method,
            head.prefer,
            head.transfer_encoding,
            head.version,
            head.x_ms_date,
            head.explain,
        ];
        for ((name, value), number) in names.iter().zip(picked).zip(0..) {
            assert_eq!(value.unwrap(), format!("first {number}").as_str(), "{name}");
        }
    }
}
