//! Names of accounts, tables and properties, and the rules for each (01 §1, §2, §4).
//!
//! Invariant: a value of a name type satisfies its rules.
//!
//! This module must not depend on which names exist.

use crate::limits::{
    ACCOUNT_NAME_CHARS_MAX, ACCOUNT_NAME_CHARS_MIN, PROPERTY_NAME_UTF16_UNITS_MAX, TABLE_NAME_CHARS_MAX,
    TABLE_NAME_CHARS_MIN,
};
use crate::metrics_table::MetricsTable;
use std::fmt;
use std::sync::Arc;

/// Returns the number of UTF-16 code units of a string. The service counts each code unit as a character.
pub fn utf16_units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// The name of an account: 3 to 24 lower-case ASCII letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(Arc<str>);

impl AccountName {
    /// Checks the rules of 01 §1.
    pub fn new(name: &str) -> Option<Self> {
        let length = (ACCOUNT_NAME_CHARS_MIN..=ACCOUNT_NAME_CHARS_MAX).contains(&name.len());
        let characters = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        (length && characters).then(|| Self(Arc::from(name)))
    }

    /// Returns the name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a table: 3 to 63 ASCII letters and digits, starting with a letter; or the name of a table that the
/// service itself maintains, which users cannot create.
///
/// The letter case is preserved for output; [`TableName::folded`] determines whether two names are equal.
#[derive(Debug, Clone)]
pub struct TableName {
    spelling: Box<str>,
    folded: Box<str>,
}

/// The lower bound of the folded names of users' tables. The names of the service's own tables sort below it.
pub const TABLE_NAMES_FROM: &str = "a";

/// The reason why a string is not the name of a table that can be created (01 §2, in the order of the checks).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableNameError {
    /// Shorter than 3 or longer than 63 characters.
    Length,
    /// Contains a character other than an ASCII letter or digit, or starts with a digit.
    Characters,
    /// The reserved name `tables`, in any case.
    Reserved,
}

impl TableName {
    /// Checks the rules of 01 §2.
    pub fn new(name: &str) -> Result<Self, TableNameError> {
        if !(TABLE_NAME_CHARS_MIN..=TABLE_NAME_CHARS_MAX).contains(&utf16_units(name)) {
            return Err(TableNameError::Length);
        }
        let starts_with_letter = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
        if !starts_with_letter || !name.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(TableNameError::Characters);
        }
        let folded = name.to_ascii_lowercase().into_boxed_str();
        if &*folded == "tables" {
            return Err(TableNameError::Reserved);
        }
        Ok(Self { spelling: Box::from(name), folded })
    }

    /// Returns the name of a metrics table.
    pub fn from_metrics_table(table: MetricsTable) -> Self {
        Self { spelling: Box::from(table.name()), folded: table.name().to_ascii_lowercase().into_boxed_str() }
    }

    /// Validates a stored name: one that users may choose, or the name of a metrics table.
    pub fn stored(name: &str) -> Result<Self, TableNameError> {
        MetricsTable::from_name(name).map_or_else(|| Self::new(name), |table| Ok(Self::from_metrics_table(table)))
    }

    /// Returns whether this is the name of a metrics table.
    pub fn is_metrics_table(&self) -> bool {
        self.folded.starts_with('$')
    }

    /// Returns the name in its original letter case.
    pub fn as_str(&self) -> &str {
        &self.spelling
    }

    /// Returns the lower-case form, which identifies the table.
    pub fn folded(&self) -> &str {
        &self.folded
    }
}

impl PartialEq for TableName {
    fn eq(&self, other: &Self) -> bool {
        self.folded == other.folded
    }
}

impl Eq for TableName {}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelling)
    }
}

/// The reason why a string is not a property name (01 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertyNameError {
    /// More UTF-16 code units than allowed: 255, or 1,024 in one dialect (11 §6).
    TooLong,
    /// Empty, or not an identifier: a letter or `_`, then letters, digits, `_` and combining characters.
    Invalid,
}

/// Checks the rules for the name of a custom property.
///
/// The rules are those of C# identifiers. A name must also be a valid XML name (01 §4), because Atom uses it as an
/// element. It is not known exactly which Unicode classes the service accepts as "combining and connecting"
/// (UNVERIFIED).
pub fn check_property_name(name: &str) -> Result<(), PropertyNameError> {
    check_property_name_within(name, PROPERTY_NAME_UTF16_UNITS_MAX)
}

/// Checks the same rules with another maximum length, in UTF-16 code units.
pub fn check_property_name_within(name: &str, units_max: usize) -> Result<(), PropertyNameError> {
    check_characters(name, units_max, is_name_character)
}

/// Checks the rules for the name of a custom property before 2009-04-14: it may also contain dashes (01 §4).
///
/// UNVERIFIED (01 §4): the other rules of that time, except that the first character must be one that an XML name can
/// begin with.
pub fn check_property_name_with_dashes(name: &str, units_max: usize) -> Result<(), PropertyNameError> {
    check_characters(name, units_max, |c| c == '-' || is_name_character(c))
}

/// Checks the length of a name, its first character, and the characters after it.
fn check_characters(name: &str, units_max: usize, fits: impl Fn(char) -> bool) -> Result<(), PropertyNameError> {
    if name.len() > units_max && utf16_units(name) > units_max {
        return Err(PropertyNameError::TooLong);
    }
    // Nearly all names are ASCII and need not be decoded.
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_plain && name.bytes().next().is_some_and(|b| !b.is_ascii_digit()) {
        return Ok(());
    }
    let mut characters = name.chars();
    let first_fits = characters.next().is_some_and(|c| c == '_' || (c.is_alphabetic() && is_name_character(c)));
    if first_fits && characters.all(fits) { Ok(()) } else { Err(PropertyNameError::Invalid) }
}

/// Returns whether a character is allowed after the first one, both in an XML name and in an identifier. XML allows
/// whole ranges. Above U+2070, these ranges contain symbols that older XML parsers reject, so only letters and digits
/// are accepted there. C# identifiers contain no characters above U+FFFF.
fn is_name_character(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => true,
        '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' => true,
        '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' => c.is_alphanumeric(),
        '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' => c.is_alphanumeric(),
        _ => false,
    }
}

/// The system property with the partition key.
pub const PARTITION_KEY: &str = "PartitionKey";
/// The system property with the row key.
pub const ROW_KEY: &str = "RowKey";
/// The system property with the time of the last write.
pub const TIMESTAMP: &str = "Timestamp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_names() {
        for good in ["abc", "devstoreaccount1", "0123456789abcdefghijklmn"] {
            assert_eq!(AccountName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "ab", "Abc", "a-b", "0123456789abcdefghijklmno", "äbc"] {
            assert!(AccountName::new(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn table_names() {
        let long = "a".repeat(63);
        for good in ["abc", "A1b", long.as_str()] {
            assert_eq!(TableName::new(good).unwrap().as_str(), good);
        }
        let too_long = "a".repeat(64);
        for (bad, why) in [
            ("", TableNameError::Length),
            ("ab", TableNameError::Length),
            (too_long.as_str(), TableNameError::Length),
            ("1ab", TableNameError::Characters),
            ("a_b", TableNameError::Characters),
            ("a-b", TableNameError::Characters),
            ("äöü", TableNameError::Characters),
            ("$MetricsX", TableNameError::Characters),
            ("tables", TableNameError::Reserved),
            ("TABLES", TableNameError::Reserved),
        ] {
            assert_eq!(TableName::new(bad).unwrap_err(), why, "{bad}");
        }
        assert_eq!(TableName::new("MyTable").unwrap(), TableName::new("mytable").unwrap());
        for table in MetricsTable::ALL {
            assert_eq!(TableName::new(table.name()).unwrap_err(), TableNameError::Characters);
            let stored = TableName::stored(table.name()).unwrap();
            assert!(stored == TableName::from_metrics_table(table) && stored.is_metrics_table());
            assert!(stored.folded() < TABLE_NAMES_FROM);
        }
        let stored = TableName::stored("Aaa").unwrap();
        assert!(stored.folded() > TABLE_NAMES_FROM && !stored.is_metrics_table());
        assert!(TableName::stored("$other").is_err());
    }

    #[test]
    fn property_names() {
        let long = "é".repeat(255);
        for good in ["a", "_", "A1_b", "日本", "e\u{301}", long.as_str(), "partitionkey"] {
            assert_eq!(check_property_name(good), Ok(()), "{good}");
        }
        let too_long = "a".repeat(256);
        assert_eq!(check_property_name_within(&too_long, 256), Ok(()));
        for (bad, why) in [
            ("", PropertyNameError::Invalid),
            ("1a", PropertyNameError::Invalid),
            ("a-b", PropertyNameError::Invalid),
            ("a b", PropertyNameError::Invalid),
            ("a.b", PropertyNameError::Invalid),
            ("a×b", PropertyNameError::Invalid),
            ("a÷b", PropertyNameError::Invalid),
            ("a’b", PropertyNameError::Invalid),
            ("a\u{200B}b", PropertyNameError::Invalid),
            ("a\u{37E}b", PropertyNameError::Invalid),
            ("a₤", PropertyNameError::Invalid),
            ("a、b", PropertyNameError::Invalid),
            ("😀", PropertyNameError::Invalid),
            ("a😀", PropertyNameError::Invalid),
            ("µ", PropertyNameError::Invalid),
            ("a\u{FFFE}", PropertyNameError::Invalid),
            (too_long.as_str(), PropertyNameError::TooLong),
        ] {
            assert_eq!(check_property_name(bad), Err(why), "{bad}");
        }
    }
}
