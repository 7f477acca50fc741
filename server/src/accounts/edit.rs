//! Edits account files as text: comments, order and everything else that is not changed stay as they are.
//!
//! Invariants: the functions return only account files that the server accepts, and no error contains a key.

use super::Accounts;
use crate::toml_file::parse_toml;
use anyhow::{Context, ensure};
use model::AccountName;
use serde::Deserialize;
use std::fmt;
use std::ops::Range;
use toml::Spanned;

/// One of the two keys of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySlot {
    /// The first key, from which user delegation keys are derived.
    Key1,
    /// The second key, which is optional.
    Key2,
}

impl fmt::Display for KeySlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key1 => "key1",
            Self::Key2 => "key2",
        })
    }
}

/// The parts of an account file that the edits look for. [`Accounts`] checks the rest.
#[derive(Deserialize)]
struct Positions {
    #[serde(default)]
    account: Vec<AccountPosition>,
}

#[derive(Deserialize)]
struct AccountPosition {
    name: String,
    key1: Spanned<String>,
    key2: Option<Spanned<String>>,
}

/// Returns an account section with two keys.
pub fn section(name: &AccountName, keys: [&str; 2]) -> String {
    let [key1, key2] = keys;
    format!("[[account]]\nname = \"{name}\"\nkey1 = \"{key1}\"\nkey2 = \"{key2}\"\n")
}

/// Returns the names of the accounts, in file order, and the number of keys of each.
pub fn list(text: &str) -> anyhow::Result<Vec<(String, usize)>> {
    Accounts::from_text(text)?;
    let counted = positions(text)?.account.into_iter().map(|account| {
        let keys = 1 + usize::from(account.key2.is_some());
        (account.name, keys)
    });
    Ok(counted.collect())
}

/// Returns a key of an account, in Base64.
pub fn key(text: &str, name: &AccountName, slot: KeySlot) -> anyhow::Result<String> {
    Accounts::from_text(text)?;
    let AccountPosition { key1, key2, .. } = position(text, name)?;
    let key = match slot {
        KeySlot::Key1 => Some(key1),
        KeySlot::Key2 => key2,
    };
    key.map(Spanned::into_inner).with_context(|| format!("the account '{name}' has no {slot}"))
}

/// Appends an account to a file, which may be empty.
pub fn add(text: &str, name: &AccountName, keys: [&str; 2]) -> anyhow::Result<String> {
    let is_there = positions(text)?.account.iter().any(|account| account.name == name.as_str());
    ensure!(!is_there, "the account '{name}' already exists; 'rowhouse accounts rotate {name}' gives it a new key");
    let separator = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    checked(format!("{text}{separator}{}", section(name, keys)))
}

/// Replaces one key of an account. Adds a second key if there is none.
pub fn replace_key(text: &str, name: &AccountName, slot: KeySlot, key: &str) -> anyhow::Result<String> {
    let account = position(text, name)?;
    let quoted = format!("\"{key}\"");
    let (place, new) = match (slot, &account.key2) {
        (KeySlot::Key1, _) => (account.key1.span(), quoted),
        (KeySlot::Key2, Some(key2)) => (key2.span(), quoted),
        (KeySlot::Key2, None) => after_key1(text, account.key1.span(), &quoted),
    };
    let (before, after) = (text.get(..place.start), text.get(place.end..));
    let (before, after) = before.zip(after).context("the key is not in the file")?;
    checked(format!("{before}{new}{after}"))
}

/// A second key goes on a new line below the first key, or, in an inline table, directly after it.
fn after_key1(text: &str, key1: Range<usize>, quoted: &str) -> (Range<usize>, String) {
    let line_start = text.get(..key1.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line = text.get(line_start..key1.start).unwrap_or_default();
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    if !line.trim_start().starts_with("key1") {
        return (key1.end..key1.end, format!(", key2 = {quoted}"));
    }
    let rest = text.get(key1.end..).unwrap_or_default();
    let line_end = key1.end + rest.find(['\r', '\n']).unwrap_or(rest.len());
    let line_break = if rest.contains("\r\n") { "\r\n" } else { "\n" };
    (line_end..line_end, format!("{line_break}{indent}key2 = {quoted}"))
}

fn position(text: &str, name: &AccountName) -> anyhow::Result<AccountPosition> {
    let found = positions(text)?.account.into_iter().find(|account| account.name == name.as_str());
    found.with_context(|| format!("there is no account '{name}'"))
}

fn positions(text: &str) -> anyhow::Result<Positions> {
    parse_toml(text, &[])
}

fn checked(text: String) -> anyhow::Result<String> {
    Accounts::from_text(&text).context("the file cannot be changed")?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "AAECAwQFBgcICQoLDA0ODw==";
    const B: &str = "BBECAwQFBgcICQoLDA0ODw==";
    const NEW: &str = "CCECAwQFBgcICQoLDA0ODw==";

    fn name(text: &str) -> AccountName {
        AccountName::new(text).unwrap()
    }

    #[test]
    fn an_account_is_added_at_the_end() {
        let new = format!("[[account]]\nname = \"plum\"\nkey1 = \"{A}\"\nkey2 = \"{B}\"\n");
        for (text, between) in [
            (String::new(), ""),
            (format!("# mine\n[[account]]\nname = \"one\"\nkey1 = \"{A}\" # old"), "\n\n"),
            (format!("[[account]]\nname = \"one\"\nkey1 = \"{A}\"\n[account.quota]\nmax-tables = 3\n"), "\n"),
        ] {
            assert_eq!(add(&text, &name("plum"), [A, B]).unwrap(), format!("{text}{between}{new}"));
        }
        let error = add(&new, &name("plum"), [A, B]).unwrap_err().to_string();
        assert!(error.contains("'plum' already exists"), "{error}");
        for broken in ["[[account]]\n", "x = 1\n", "account = []\n"] {
            let error = format!("{:#}", add(broken, &name("plum"), [A, B]).unwrap_err());
            assert!(error.contains("line ") && !error.contains(A), "{broken}: {error}");
        }
    }

    #[test]
    fn a_key_is_found_by_account_and_slot() {
        let text = format!(
            "[[account]]\nname = \"one\"\nkey1 = \"{A}\"\nkey2 = '{B}'\n[[account]]\nname = \"two\"\nkey1 = \"{B}\"\n"
        );
        let key = |account: &str, slot| key(&text, &name(account), slot).map_err(|error| error.to_string());
        assert_eq!(key("one", KeySlot::Key1).as_deref(), Ok(A));
        assert_eq!(key("one", KeySlot::Key2).as_deref(), Ok(B));
        assert_eq!(key("two", KeySlot::Key1).as_deref(), Ok(B));
        assert_eq!(key("two", KeySlot::Key2), Err("the account 'two' has no key2".to_owned()));
        assert_eq!(key("three", KeySlot::Key1), Err("there is no account 'three'".to_owned()));
        let broken = text.replace(A, "AAEC");
        let error = format!("{:#}", super::key(&broken, &name("two"), KeySlot::Key1).unwrap_err());
        assert!(error.contains("'one' is invalid") && !error.contains("AAEC"), "{error}");
    }

    #[test]
    fn one_key_is_replaced_and_everything_else_stays() {
        let text = format!(
            "# A\r\n[[account]]\nkey2 = '{B}' # two\nname = \"one\"\nkey1=\"\"\"{A}\"\"\"\n\n[[account]]\nname = \"two\"\n  \
             key1 = \"{A}\" # the only one\n[account.quota]\nmax-tables = 3"
        );
        let replaced = |account: &str, slot| replace_key(&text, &name(account), slot, NEW).unwrap();
        let quoted = format!("\"{NEW}\"");
        assert_eq!(replaced("one", KeySlot::Key1), text.replacen(&format!("\"\"\"{A}\"\"\""), &quoted, 1));
        assert_eq!(replaced("one", KeySlot::Key2), text.replacen(&format!("'{B}'"), &quoted, 1));
        let last = "# the only one\n";
        assert_eq!(replaced("two", KeySlot::Key2), text.replacen(last, &format!("{last}  key2 = {quoted}\n"), 1));
        let inline = format!("account = [{{ name = \"one\", key1 = \"{A}\" }}]");
        assert_eq!(
            replace_key(&inline, &name("one"), KeySlot::Key2, NEW).unwrap(),
            format!("account = [{{ name = \"one\", key1 = \"{A}\", key2 = {quoted} }}]")
        );
        let error = replace_key(&text, &name("three"), KeySlot::Key1, NEW).unwrap_err().to_string();
        assert_eq!(error, "there is no account 'three'");
    }

    #[test]
    fn a_list_shows_no_keys() {
        let text = format!("{}[[account]]\nname = \"two\"\nkey1 = \"{A}\"\n", section(&name("one"), [A, B]));
        assert_eq!(list(&text).unwrap(), [("one".to_owned(), 2), ("two".to_owned(), 1)]);
        assert!(list("").is_err());
    }
}
