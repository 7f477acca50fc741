//! Base64 of binary values, with the widest instructions that the processor has.

use base64::Engine as _;
use base64::engine::general_purpose::PAD;
use std::sync::LazyLock;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use base64::engine::GeneralPurpose as Base64;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use base64::engine::Simd as Base64;

static BASE64: LazyLock<Base64> = LazyLock::new(|| {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    return Base64::standard(PAD);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return Base64::new(&base64::alphabet::STANDARD, PAD);
});

/// Appends bytes as text.
pub(crate) fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = BASE64.encode_slice(bytes, out.get_mut(start..).unwrap_or_default());
    out.truncate(start + written.expect("the room was made for it"));
}

/// The bytes that a text stands for; `None` if it is not Base64.
pub(crate) fn read_base64(text: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    proptest! {
        /// Lengths below, at and above what the instructions take at once.
        #[test]
        fn bytes_of_every_length_are_as_the_plain_engine_writes_them(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut out = b"x".to_vec();
            write_base64(&mut out, &bytes);
            prop_assert_eq!(&out, &[b"x", STANDARD.encode(&bytes).as_bytes()].concat());
            prop_assert_eq!(read_base64(&out[1..]), Some(bytes));
        }

        #[test]
        fn what_the_plain_engine_refuses_is_refused(text in "[A-Za-z0-9+/=_\\-é ]{0,80}") {
            prop_assert_eq!(read_base64(&text), STANDARD.decode(&text).ok());
        }
    }
}
