//! The headers of a request that decide what becomes of it, found in one pass.
//!
//! To look each of them up by its name takes a hash of the name for every one, whether it is there or not, and most
//! requests have a few.

use http::{HeaderMap, HeaderValue};

/// The headers that every request may have. Of those that came in several lines, the first line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Head<'r> {
    pub(crate) accept: Option<&'r HeaderValue>,
    /// Whether `Accept` came in several lines.
    pub(crate) is_accept_repeated: bool,
    pub(crate) authorization: Option<&'r HeaderValue>,
    pub(crate) client_request_id: Option<&'r HeaderValue>,
    pub(crate) content_md5: Option<&'r HeaderValue>,
    pub(crate) content_type: Option<&'r HeaderValue>,
    pub(crate) data_service_version: Option<&'r HeaderValue>,
    pub(crate) date: Option<&'r HeaderValue>,
    pub(crate) host: Option<&'r HeaderValue>,
    pub(crate) if_match: Option<&'r HeaderValue>,
    pub(crate) if_none_match: Option<&'r HeaderValue>,
    pub(crate) max_data_service_version: Option<&'r HeaderValue>,
    /// `X-HTTP-Method`
    pub(crate) method: Option<&'r HeaderValue>,
    pub(crate) prefer: Option<&'r HeaderValue>,
    /// `x-ms-version`
    pub(crate) version: Option<&'r HeaderValue>,
    /// `x-ms-date`
    pub(crate) x_ms_date: Option<&'r HeaderValue>,
}

impl<'r> Head<'r> {
    /// Picks the headers.
    pub(crate) fn of(headers: &'r HeaderMap) -> Self {
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
                "host" => &mut head.host,
                "if-match" => &mut head.if_match,
                "if-none-match" => &mut head.if_none_match,
                "maxdataserviceversion" => &mut head.max_data_service_version,
                "prefer" => &mut head.prefer,
                "x-http-method" => &mut head.method,
                "x-ms-client-request-id" => &mut head.client_request_id,
                "x-ms-date" => &mut head.x_ms_date,
                "x-ms-version" => &mut head.version,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
        head
    }
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
            "x-ms-version",
            "x-ms-date",
        ];
        let mut headers = HeaderMap::new();
        for line in ["first", "second"] {
            for (name, number) in names.iter().zip(0..) {
                let value = HeaderValue::from_str(&format!("{line} {number}")).unwrap();
                headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
            }
            headers.append("another", HeaderValue::from_static("value"));
        }
        let head = Head::of(&headers);
        assert!(head.is_accept_repeated);
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
            head.version,
            head.x_ms_date,
        ];
        for ((name, value), number) in names.iter().zip(picked).zip(0..) {
            assert_eq!(value.unwrap(), format!("first {number}").as_str(), "{name}");
        }
    }
}
