//! The end of the range of strings that start with a prefix.
//!
//! The service sorts strings by UTF-16 code unit (01 §3). This is the order of code points, except that code points
//! above U+FFFF sort between U+D7FF and U+E000.
//!
//! This module must not depend on filters.

/// Returns the least string that sorts after every string with this prefix. Returns `None` if the prefix is empty or
/// consists only of the last character, because no such string exists.
pub fn successor(prefix: &str) -> Option<String> {
    let mut characters = prefix.chars();
    while let Some(last) = characters.next_back() {
        if let Some(next) = next_character(last) {
            return Some(characters.chain([next]).collect());
        }
    }
    None
}

fn next_character(c: char) -> Option<char> {
    match c {
        '\u{D7FF}' => Some('\u{10000}'),
        char::MAX => Some('\u{E000}'),
        '\u{FFFF}' => None,
        other => char::from_u32(u32::from(other) + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edm::compare_ordinal;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = String> {
        let edge = ['\0', 'a', 'b', '\u{D7FF}', '\u{E000}', '\u{FFFE}', '\u{FFFF}', '\u{10000}', char::MAX];
        let character = prop_oneof![proptest::sample::select(edge.to_vec()), any::<char>()];
        proptest::collection::vec(character, 0..4).prop_map(|characters| characters.into_iter().collect())
    }

    proptest! {
        #[test]
        fn exactly_the_texts_with_the_prefix_lie_before_its_successor(prefix in text(), other in text(), more in text()) {
            for text in [&other, &format!("{prefix}{more}"), &format!("{prefix}{other}")] {
                let is_from = compare_ordinal(text, &prefix).is_ge();
                let is_before = successor(&prefix).is_none_or(|end| compare_ordinal(text, &end).is_lt());
                prop_assert_eq!(is_from && is_before, text.starts_with(&prefix), "{:?} {:?}", prefix, text);
            }
        }
    }

    #[test]
    fn the_last_character_is_followed_by_the_next_one_of_the_order() {
        assert_eq!(successor("ab").as_deref(), Some("ac"));
        assert_eq!(successor("a\u{FFFF}").as_deref(), Some("b"));
        assert_eq!(successor("\u{D7FF}").as_deref(), Some("\u{10000}"));
        assert_eq!(successor("\u{10FFFF}").as_deref(), Some("\u{E000}"));
        assert_eq!(successor("\u{FFFF}\u{FFFF}"), None);
        assert_eq!(successor(""), None);
    }
}
