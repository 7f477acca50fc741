//! Continuation tokens in the format of the service: `1!<length>!<Base64>` (specification 04 §6).
//!
//! A token contains the next position to examine. Tokens are not secret and not tied to a query.
//!
//! A list that is not a table, an extension, has tokens in the same form. The first one contains the position after a
//! byte that no string contains, so it is no token of a table. The second one contains the name of the list.
//!
//! This module must not depend on the meaning of a token's content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::borrow::Cow;

/// Begins a position in a list that is not a table. UTF-8 does not contain this byte.
const IN_LIST: u8 = 0xFF;

/// Encodes a key, a table name or other bytes as a token.
pub fn encode(content: impl AsRef<[u8]>) -> String {
    let base64: String = STANDARD
        .encode(content)
        .chars()
        .map(|c| match c {
            '+' => '*',
            '/' => '_',
            '=' => '-',
            other => other,
        })
        .collect();
    format!("1!{}!{base64}", base64.len())
}

/// Decodes a token whose content is a string. Returns `None` if it is malformed. A token without the `1!` prefix is
/// returned unchanged.
pub fn decode(token: &str) -> Option<String> {
    if token.starts_with("1!") { String::from_utf8(decode_bytes(token)?).ok() } else { Some(token.to_owned()) }
}

/// The constant second token of Azure Cosmos DB for Table (11 §8).
const COSMOS_ROW: &str = "NA";

/// The first token of Azure Cosmos DB for Table. In this server's, `token` contains both tokens.
#[derive(Deserialize)]
struct CosmosToken<'a> {
    #[serde(borrow)]
    token: Cow<'a, str>,
}

/// Combines both tokens to those of Azure Cosmos DB for Table (11 §8).
pub fn join_for_cosmos(partition: &str, row: Option<&str>) -> (String, String) {
    let row = row.map(|row| [";", row].concat()).unwrap_or_default();
    // Tokens contain nothing that JSON escapes.
    (format!("{{\"token\":\"{partition}{row}\",\"range\":{{\"min\":\"\",\"max\":\"FF\"}}}}"), COSMOS_ROW.to_owned())
}

/// Returns both tokens of a pair for Azure Cosmos DB for Table, or `None` if the pair is malformed or not of this
/// server. Without that check, a token of the service would be read as a key.
pub fn split_from_cosmos(partition: &str, row: Option<&str>) -> Option<(String, Option<String>)> {
    if row != Some(COSMOS_ROW) {
        return None;
    }
    let CosmosToken { token } = serde_json::from_str(partition).ok()?;
    let (partition, row) = token.split_once(';').map_or((&*token, None), |(partition, row)| (partition, Some(row)));
    let is_own = decode_bytes(partition).is_some() && row.is_none_or(|row| decode_bytes(row).is_some());
    is_own.then(|| (partition.to_owned(), row.map(str::to_owned)))
}

/// Encodes a position in a list that is not a table, as both tokens.
pub fn encode_in_list(position: &[u8], list: &str) -> (String, String) {
    (encode([&[IN_LIST], position].concat()), encode(list))
}

/// Decodes both tokens of a list that is not a table, as the position and the name of the list. Returns `None` if they
/// are malformed or of a table.
pub fn decode_in_list(partition: &str, row: Option<&str>) -> Option<(Vec<u8>, String)> {
    let position = decode_bytes(partition)?;
    let list = String::from_utf8(decode_bytes(row?)?).ok()?;
    Some((position.strip_prefix(&[IN_LIST])?.to_vec(), list))
}

/// Decodes a token with any content. Returns `None` if it is malformed.
fn decode_bytes(token: &str) -> Option<Vec<u8>> {
    let rest = token.strip_prefix("1!")?;
    let (length, encoded) = rest.split_once('!')?;
    if length.parse() != Ok(encoded.len()) {
        return None;
    }
    let base64: String = encoded
        .chars()
        .map(|c| match c {
            '*' => '+',
            '_' => '/',
            '-' => '=',
            other => other,
        })
        .collect();
    STANDARD.decode(base64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_recorded_form() {
        assert_eq!(encode("Smith"), "1!8!U21pdGg-");
        assert_eq!(encode("pk"), "1!4!cGs-");
        assert_eq!(encode(""), "1!0!");
        for malformed in ["1!", "1!4!cGs", "1!5!cGs-", "1!4!????", "1!4!____"] {
            assert_eq!(decode(malformed), None, "{malformed}");
        }
        for plain in ["", "x", "1", "2!4!cGs-"] {
            assert_eq!(decode(plain).as_deref(), Some(plain));
        }
    }

    #[test]
    fn tokens_for_cosmos() {
        let (partition, row) = join_for_cosmos("1!4!cGs-", Some("1!8!U21pdGg-"));
        assert_eq!((&*partition, &*row), (r#"{"token":"1!4!cGs-;1!8!U21pdGg-","range":{"min":"","max":"FF"}}"#, "NA"));
        let both = Some(("1!4!cGs-".to_owned(), Some("1!8!U21pdGg-".to_owned())));
        assert_eq!(split_from_cosmos(&partition, Some("NA")), both);
        let (partition, row) = join_for_cosmos("1!4!cGs-", None);
        assert_eq!(split_from_cosmos(&partition, Some(&row)), Some(("1!4!cGs-".to_owned(), None)));
        let foreign = r#"{"token":"+RID:~abc==#RT:1#TRC:5","range":{"min":"","max":"FF"}}"#;
        let half = r#"{"token":"1!4!cGs-;r","range":{"min":"","max":"FF"}}"#;
        let list = format!("[{partition}]");
        for (partition, row) in [
            (&*partition, None),
            (&*partition, Some("1!4!cGs-")),
            ("1!4!cGs-", Some("NA")),
            ("[]", Some("NA")),
            (foreign, Some("NA")),
            (half, Some("NA")),
            (&*list, Some("NA")),
        ] {
            assert_eq!(split_from_cosmos(partition, row), None, "{partition} {row:?}");
        }
    }

    proptest! {
        #[test]
        fn tokens_read_back(text in ".{0,40}") {
            prop_assert_eq!(decode(&encode(&text)), Some(text));
        }

        #[test]
        fn tokens_of_bytes_read_back(bytes: Vec<u8>) {
            prop_assert_eq!(decode_bytes(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn tokens_of_a_list_read_back_and_are_none_of_a_table(position: Vec<u8>, list in ".{0,40}", key in ".{0,40}") {
            let (first, second) = encode_in_list(&position, &list);
            prop_assert_eq!(decode_in_list(&first, Some(&second)), Some((position, list)));
            prop_assert_eq!(decode_in_list(&first, None), None);
            prop_assert_eq!(decode(&first), None);
            prop_assert_eq!(decode_in_list(&encode(&key), Some(&second)), None);
        }
    }
}
