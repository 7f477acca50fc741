//! Responses to entity group transactions, as parsed by a client (specification 05 §4).
//!
//! This module must not depend on which operation a response belongs to.

use super::BatchError;
use super::multipart::{Lines, Parts};
use super::read::PartContent;
use model::limits::TRANSACTION_OPERATIONS_MAX;

/// The response to one operation of a changeset, or the only response to a changeset that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartResponse<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The `ETag` header, if present.
    pub etag: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

/// Parses the responses of a changeset, in the order of its operations. `content_type` is the header of the whole
/// response.
pub fn read_responses<'a>(content_type: &str, body: &'a [u8]) -> Result<Vec<PartResponse<'a>>, BatchError> {
    let outer = super::multipart::boundary(content_type).ok_or(BatchError::ContentType)?;
    let first = Parts::new(outer, body)?.next().ok_or(BatchError::Malformed("the response is empty"))?;
    let (boundary, body) = match PartContent::read(first)? {
        PartContent::Changeset { boundary, body } => (boundary, body),
        // The response to a batch that failed as a whole may lack a changeset.
        PartContent::Operation(content) => return Ok(vec![read_part(content)?]),
    };
    let mut parts = Parts::new(boundary, body)?;
    let mut responses = Vec::new();
    for part in parts.by_ref() {
        if responses.len() == TRANSACTION_OPERATIONS_MAX {
            return Err(BatchError::Malformed("there are more responses than a changeset can have operations"));
        }
        match PartContent::read(part)? {
            PartContent::Operation(content) => responses.push(read_part(content)?),
            PartContent::Changeset { .. } => {
                return Err(BatchError::Malformed("a changeset contains a changeset"));
            }
        }
    }
    if parts.is_closed() { Ok(responses) } else { Err(BatchError::Malformed("a changeset has no closing delimiter")) }
}

fn read_part(content: &[u8]) -> Result<PartResponse<'_>, BatchError> {
    let mut lines = Lines::new(content);
    let line = lines.next()?.and_then(|line| std::str::from_utf8(line).ok());
    let status = line.and_then(|line| line.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or(BatchError::Malformed("a part does not start with an HTTP status line"))?;
    let mut etag = None;
    while let Some(header) = lines.next_header()? {
        if header.is("ETag") {
            etag = Some(header.text()?);
        }
    }
    Ok(PartResponse { status, etag, body: lines.rest() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/mixed; boundary=batchresponse_1";

    fn response(parts: &[&str]) -> String {
        let head =
            "--changesetresponse_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
        let parts: String = parts.iter().flat_map(|part| [head, part, "\r\n"]).collect();
        format!(
            "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_2\r\n\r\n{parts}--changesetresponse_2--\r\n--batchresponse_1--\r\n"
        )
    }

    #[test]
    fn responses_and_failures() {
        let good = "HTTP/1.1 204 No Content\r\nDataServiceVersion: 1.0;\r\nETag: W/\"x\"\r\n\r\n";
        let body = response(&[good, good]);
        let responses = read_responses(TYPE, body.as_bytes()).unwrap();
        let expected = PartResponse { status: 204, etag: Some("W/\"x\""), body: b"" };
        assert_eq!(responses, [expected.clone(), expected]);
        let body = response(&["HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n\r\n{\"x\":1}"]);
        assert_eq!(
            read_responses(TYPE, body.as_bytes()),
            Ok(vec![PartResponse { status: 503, etag: None, body: b"{\"x\":1}" }])
        );
    }

    #[test]
    fn what_is_not_a_response() {
        assert_eq!(read_responses("application/json", b"{}"), Err(BatchError::ContentType));
        let whole = response(&["HTTP/1.1 204 No Content\r\n\r\n"]);
        for broken in [
            whole.replace("HTTP/1.1 204 No Content", "204"),
            whole.replace("--changesetresponse_2--", ""),
            whole.replace("batchresponse_1", "other"),
            String::new(),
        ] {
            assert!(matches!(read_responses(TYPE, broken.as_bytes()), Err(BatchError::Malformed(_))), "{broken}");
        }
    }
}
