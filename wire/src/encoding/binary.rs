//! Base64 encoding of binary values.
//!
//! This module must not depend on where such values occur.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, out.get_mut(start..).unwrap_or_default());
    out.truncate(start + written.expect("the buffer was resized for it"));
}

/// Decodes padded standard Base64. Returns `None` for anything else.
pub(crate) fn read_base64(text: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_appended_as_text_and_read_back() {
        for length in 0..9 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte * 31).collect();
            let mut out = b"x".to_vec();
            write_base64(&mut out, &bytes);
            assert_eq!(out.len(), 1 + bytes.len().div_ceil(3) * 4);
            assert_eq!(read_base64(&out[1..]), Some(bytes));
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in ["AQ", "AQ=", "AR==", "A_==", "AQ==\n", "é", "===="] {
            assert_eq!(read_base64(text), None, "{text}");
        }
        assert_eq!(read_base64(""), Some(Vec::new()));
    }
}
