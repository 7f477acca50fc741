//! Base64 encoding of binary values.
//!
//! This module must not depend on where such values occur.

use base64::engine::general_purpose::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};

/// Accepts what .NET accepts: nonzero bits after the last byte are ignored.
const TOLERANT: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

pub(crate) fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, out.get_mut(start..).unwrap_or_default());
    out.truncate(start + written.expect("the buffer was resized for it"));
}

/// Decodes padded standard Base64, which may contain white space anywhere (01 §6.5). Returns `None` for anything else.
pub(crate) fn read_base64(text: &[u8]) -> Option<Vec<u8>> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    if text.iter().any(is_blank) {
        let text: Vec<u8> = text.iter().copied().filter(|byte| !is_blank(byte)).collect();
        return TOLERANT.decode(text).ok();
    }
    TOLERANT.decode(text).ok()
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
        for text in ["AQ", "AQ=", "A_==", "AQ==AQ==", "A\u{A0}Q==", "é", "===="] {
            assert_eq!(read_base64(text.as_bytes()), None, "{text}");
        }
        for text in ["", " \r\n\t"] {
            assert_eq!(read_base64(text.as_bytes()), Some(Vec::new()));
        }
        for text in ["AQ==", "AR==", "AQ==\n", " A Q\r\n=\t="] {
            assert_eq!(read_base64(text.as_bytes()), Some(vec![1]), "{text}");
        }
    }
}
