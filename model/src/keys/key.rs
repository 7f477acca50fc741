//! Partition keys and row keys, and the order-preserving bytes under which entities are stored.
//!
//! Keys are ordered by UTF-16 code unit (01 §3). UTF-8 byte order differs from this order in one case: supplementary
//! characters (lead bytes F0 to F4) sort after U+E000 to U+FFFF (lead bytes EE and EF), whereas in UTF-16 they sort
//! before them. Those seven lead bytes occur nowhere else in UTF-8. Exchanging them byte by byte therefore gives an
//! encoding of the same length whose byte order is the UTF-16 order. Every string below U+E000, such as ASCII, is
//! encoded as itself.
//!
//! Invariant: the byte order of encoded keys is the service's order of entities.
//!
//! This module must not depend on tables or storage.

use crate::limits::KEY_UTF16_UNITS_MAX;
use crate::name::utf16_units;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Separates the partition key from the row key in a primary key; keys contain no control characters.
pub const KEY_SEPARATOR: u8 = 0;

pub(crate) fn ordinal_byte(byte: u8) -> u8 {
    match byte {
        0xF0..=0xF4 => byte - 2,
        0xEE | 0xEF => byte + 5,
        other => other,
    }
}

fn utf8_byte(byte: u8) -> u8 {
    match byte {
        0xEE..=0xF2 => byte + 2,
        0xF3 | 0xF4 => byte - 5,
        other => other,
    }
}

/// Returns whether the UTF-8 bytes and their encoding are the same. Testing all bytes is faster than stopping at the
/// first match.
fn is_encoded_as_itself(bytes: &[u8]) -> bool {
    bytes.iter().copied().fold(0, u8::max) < 0xEE
}

/// Appends the order-preserving encoding of a string.
pub fn encode_ordinal(text: &str, out: &mut Vec<u8>) {
    if is_encoded_as_itself(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend(text.bytes().map(ordinal_byte));
    }
}

/// Decodes an order-preserving encoding. Returns `None` if the bytes are not valid.
pub fn decode_ordinal(bytes: &[u8]) -> Option<Cow<'_, str>> {
    if is_encoded_as_itself(bytes) {
        std::str::from_utf8(bytes).ok().map(Cow::Borrowed)
    } else {
        let utf8 = bytes.iter().map(|b| utf8_byte(*b)).collect();
        String::from_utf8(utf8).ok().map(Cow::Owned)
    }
}

/// A partition key or a row key: at most 512 UTF-16 code units, without `/ \ # ?` or control characters. Clones share
/// the string, because each inserted entity needs its keys twice: for the engine and for the response.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyText(Arc<str>);

/// The reason why a string is not a valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// More than 512 UTF-16 code units.
    TooLong,
    /// `/` or `\`.
    Slash,
    /// `#`, `?`, or a control character (U+0000–U+001F, U+007F–U+009F).
    ForbiddenCharacter,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "it is longer than 512 UTF-16 code units",
            Self::Slash => "it contains '/' or '\\'",
            Self::ForbiddenCharacter => "it contains '#', '?' or a control character",
        })
    }
}

impl std::error::Error for KeyError {}

impl KeyText {
    /// Checks the rules of 01 §3, characters before length.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        // Most keys are plain ASCII and need not be decoded.
        if !text.bytes().fold(true, |plain, b| plain & is_plain(b)) {
            check_characters(text)?;
        }
        if text.len() > KEY_UTF16_UNITS_MAX && utf16_units(text) > KEY_UTF16_UNITS_MAX {
            return Err(KeyError::TooLong);
        }
        Ok(Self(Arc::from(text)))
    }

    /// Returns the key as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_plain(b: u8) -> bool {
    matches!(b, b' '..=b'~') && !matches!(b, b'/' | b'\\' | b'#' | b'?')
}

fn check_characters(text: &str) -> Result<(), KeyError> {
    for c in text.chars() {
        match c {
            '/' | '\\' => return Err(KeyError::Slash),
            '#' | '?' | '\0'..='\x1F' | '\x7F'..='\u{9F}' => return Err(KeyError::ForbiddenCharacter),
            _ => {}
        }
    }
    Ok(())
}

/// The key of an entity in its table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntityKey {
    /// The partition key.
    pub partition: KeyText,
    /// The row key.
    pub row: KeyText,
}

impl EntityKey {
    /// Creates a key from two strings. Both are checked as in [`KeyText::new`], the partition key first.
    ///
    /// ```
    /// use rowhouse_model::EntityKey;
    /// use rowhouse_model::key::KeyError;
    ///
    /// let key = EntityKey::new("Berlin", "0042")?;
    /// assert_eq!(key.row.as_str(), "0042");
    /// assert_eq!(EntityKey::new("a/b", "0042"), Err(KeyError::Slash));
    /// # Ok::<(), KeyError>(())
    /// ```
    pub fn new(partition: &str, row: &str) -> Result<Self, KeyError> {
        Ok(Self { partition: KeyText::new(partition)?, row: KeyText::new(row)? })
    }

    /// Returns the key bytes inside a table: encoded partition key, separator, encoded row key. The byte order is the
    /// order of entities: ordinal by partition key, then by row key.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.partition.0.len() + 1 + self.row.0.len());
        self.encode_to(&mut out);
        out
    }

    /// Appends the bytes that [`Self::encode`] returns.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        encode_ordinal(&self.partition.0, out);
        out.push(KEY_SEPARATOR);
        encode_ordinal(&self.row.0, out);
    }
}

/// The two keys of an entity, borrowed from encoded key bytes where they are plain UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyView<'a> {
    /// The partition key.
    pub partition: Cow<'a, str>,
    /// The row key.
    pub row: Cow<'a, str>,
}

impl<'a> KeyView<'a> {
    /// Decodes key bytes. Returns `None` if they are not an encoded key.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let at = bytes.iter().position(|b| *b == KEY_SEPARATOR)?;
        Some(Self { partition: decode_ordinal(bytes.get(..at)?)?, row: decode_ordinal(bytes.get(at + 1..)?)? })
    }

    /// Returns the size that both keys add to an entity, in bytes, by the documented formula (01 §5).
    pub fn formula_bytes(&self) -> usize {
        crate::limits::UTF16_UNIT_BYTES * (utf16_units(&self.partition) + utf16_units(&self.row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(partition: &str, row: &str) -> EntityKey {
        EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() }
    }

    fn key_text() -> impl Strategy<Value = String> {
        proptest::collection::vec(
            prop_oneof![
                Just('a'),
                Just('!'),
                Just('\''),
                Just('é'),
                Just('\u{D7FF}'),
                Just('\u{E000}'),
                Just('\u{FFFD}'),
                Just('\u{10000}'),
                Just('\u{10FFFF}'),
                Just('😀'),
                proptest::char::any()
            ],
            0..5,
        )
        .prop_map(|chars| chars.into_iter().collect::<String>())
        .prop_filter("a key", |text| KeyText::new(text).is_ok())
    }

    proptest! {
        #[test]
        fn byte_order_is_the_order_of_utf16_code_units(a in (key_text(), key_text()), b in (key_text(), key_text())) {
            let units = |pair: &(String, String)| {
                (pair.0.encode_utf16().collect::<Vec<_>>(), pair.1.encode_utf16().collect::<Vec<_>>())
            };
            prop_assert_eq!(key(&a.0, &a.1).encode().cmp(&key(&b.0, &b.1).encode()), units(&a).cmp(&units(&b)));
        }

        #[test]
        fn keys_read_back_as_they_were(partition in key_text(), row in key_text()) {
            let bytes = key(&partition, &row).encode();
            let view = KeyView::decode(&bytes).unwrap();
            prop_assert_eq!((view.partition.as_ref(), view.row.as_ref()), (partition.as_str(), row.as_str()));
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = KeyView::decode(&bytes);
        }
    }

    #[test]
    fn forbidden_characters_and_lengths() {
        for good in ["", " ", "'", "%", "+", "`", "é😀", "\u{A0}"] {
            assert!(KeyText::new(good).is_ok(), "{good:?}");
        }
        for (bad, why) in [
            ("a/b", KeyError::Slash),
            ("a\\b", KeyError::Slash),
            ("#", KeyError::ForbiddenCharacter),
            ("?", KeyError::ForbiddenCharacter),
            ("\t", KeyError::ForbiddenCharacter),
            ("\u{7F}", KeyError::ForbiddenCharacter),
            ("\u{9F}", KeyError::ForbiddenCharacter),
        ] {
            assert_eq!(KeyText::new(bad), Err(why), "{bad:?}");
        }
        assert!(KeyText::new(&"é".repeat(512)).is_ok());
        assert_eq!(KeyText::new(&"é".repeat(513)), Err(KeyError::TooLong));
        assert!(KeyText::new(&"😀".repeat(256)).is_ok());
        assert_eq!(KeyText::new(&"😀".repeat(257)), Err(KeyError::TooLong));
    }
}
