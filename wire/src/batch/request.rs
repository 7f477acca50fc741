//! Request bodies of entity group transactions, as written by a client (specification 05 §2, §3).
//!
//! The boundaries are fixed. They cannot occur inside a part, because neither a URL nor JSON written by this crate
//! contains a line break. They start with the same prefixes as in the official clients, because the emulator accepts no
//! other prefixes.
//!
//! This module must not depend on how operations are encoded: URLs and bodies come from the caller.

/// Builds the body of a changeset.
#[derive(Debug)]
pub struct ChangesetWriter {
    body: Vec<u8>,
}

impl ChangesetWriter {
    /// The `Content-Type` of the request.
    pub const CONTENT_TYPE: &str = "multipart/mixed; boundary=batch_r";

    /// Creates an empty changeset. Reuses the buffer and discards its contents.
    pub fn new(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.extend_from_slice(b"--batch_r\r\nContent-Type: multipart/mixed; boundary=changeset_r\r\n\r\n");
        Self { body: buffer }
    }

    /// Returns the current length of the body in bytes, without its closing delimiters.
    #[allow(clippy::len_without_is_empty, reason = "the body is never empty")]
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Adds an operation that requests no response body. Takes the method, the `If-Match` condition, the absolute URL,
    /// and JSON without line breaks (no JSON for a deletion).
    pub fn operation(
        &mut self,
        method: &str,
        condition: Option<&str>,
        write_address: impl FnOnce(&mut Vec<u8>),
        write_json: impl FnOnce(&mut Vec<u8>),
    ) {
        self.body.extend_from_slice(
            b"--changeset_r\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n",
        );
        self.body.extend_from_slice(method.as_bytes());
        self.body.push(b' ');
        write_address(&mut self.body);
        self.body.extend_from_slice(
            b" HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\n\
              Prefer: return-no-content\r\nDataServiceVersion: 3.0;\r\n",
        );
        if let Some(condition) = condition {
            self.body.extend_from_slice(format!("If-Match: {condition}\r\n").as_bytes());
        }
        self.body.extend_from_slice(b"\r\n");
        write_json(&mut self.body);
        self.body.extend_from_slice(b"\r\n");
    }

    /// Returns the finished body.
    pub fn finish(mut self) -> Vec<u8> {
        self.body.extend_from_slice(b"--changeset_r--\r\n--batch_r--\r\n");
        self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, read};

    #[test]
    fn a_server_reads_what_is_written() {
        let mut writer = ChangesetWriter::new(b"left over".to_vec());
        for row in ["1", "2"] {
            let address = format!("http://h/a/t(PartitionKey='p',RowKey='{row}')");
            let json = format!("{{\"RowKey\":\"{row}--changeset_r\"}}");
            writer.operation(
                "PUT",
                (row == "2").then_some("W/\"x\""),
                |out| out.extend_from_slice(address.as_bytes()),
                |out| out.extend_from_slice(json.as_bytes()),
            );
        }
        let body = writer.finish();
        let Batch::Changeset(changeset) = read(ChangesetWriter::CONTENT_TYPE, &body, 2).unwrap() else {
            panic!("expected a changeset");
        };
        assert!(!changeset.is_followed);
        let [first, second] = &changeset.operations[..] else { panic!("{:?}", changeset.operations) };
        assert_eq!((first.method, first.target), ("PUT", "http://h/a/t(PartitionKey='p',RowKey='1')"));
        assert_eq!(first.headers.prefer, Some("return-no-content"));
        assert_eq!((first.headers.if_match, second.headers.if_match), (None, Some("W/\"x\"")));
        assert_eq!(second.body, b"{\"RowKey\":\"2--changeset_r\"}");
    }
}
