//! The indexes of a table as XML: the body of Get and Set Table Indexes, an extension (`docs/extensions.md`).
//!
//! This module must not depend on how an index is built or read.

use crate::error::{ErrorCode, ServiceError};
use crate::reason::{Reason, ReasonKind};
use crate::xml::{BYTE_ORDER_MARK, DECLARATION, Element, escape};
use model::IndexedProperty;
use model::limits::TABLE_INDEXES_MAX;

/// An index in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableIndex {
    /// The property whose values are indexed.
    pub property: IndexedProperty,
    /// Whether the index can be read. A request does not have to state it.
    pub is_ready: bool,
}

/// The message does not repeat the name, which may be long and contain any character.
const NOT_CUSTOM: &str =
    "An index requires the valid name of a custom property. PartitionKey, RowKey and Timestamp cannot have an index.";
const READY: &str = "ready";
const BUILDING: &str = "building";

/// Parses a list of indexes. Unlike the list of policies, it must not be an empty body.
pub fn read(body: &[u8]) -> Result<Vec<TableIndex>, ServiceError> {
    let malformed = |reason| ServiceError::from(ErrorCode::InvalidXmlDocument).because(reason);
    let invalid = |message| ServiceError::invalid_input(message).because(ReasonKind::XmlValue.because(message));
    let names = read_names(body).map_err(malformed)?;
    if names.len() > TABLE_INDEXES_MAX {
        let message = format!("A table can have at most {TABLE_INDEXES_MAX} indexes.");
        let reason = ReasonKind::XmlValue.because(message.clone());
        return Err(ServiceError::invalid_input(message).because(reason));
    }
    let mut indexes: Vec<TableIndex> = Vec::with_capacity(names.len());
    for (name, is_ready) in names {
        let property = IndexedProperty::new(&name).ok_or_else(|| invalid(NOT_CUSTOM))?;
        if indexes.iter().any(|index| index.property == property) {
            return Err(invalid("The list of indexes contains a property twice."));
        }
        indexes.push(TableIndex { property, is_ready });
    }
    Ok(indexes)
}

fn read_names(body: &[u8]) -> Result<Vec<(String, bool)>, Reason> {
    let root = Element::parse(body)?;
    root.check_list("TableIndexes")?;
    root.children.into_iter().map(|index| read_name(&index)).collect()
}

fn read_name(index: &Element) -> Result<(String, bool), Reason> {
    index.check_list("TableIndex")?;
    let [property, state] = index.children_by_name(["Property", "State"])?;
    let property = property.ok_or_else(|| ReasonKind::XmlElement.because("A TableIndex has no element Property."))?;
    let property = property.plain_text()?.to_owned();
    let is_ready = state.map(Element::plain_text).transpose()? == Some(READY);
    Ok((property, is_ready))
}

/// Writes a list of indexes.
pub fn write(indexes: &[TableIndex]) -> Vec<u8> {
    write_list(indexes.iter().map(|index| (index.property.as_str(), Some(index.is_ready))))
}

/// Writes the list of a request, which does not state whether the indexes are ready.
pub fn write_properties<'p>(properties: impl IntoIterator<Item = &'p str>) -> Vec<u8> {
    write_list(properties.into_iter().map(|property| (property, None)))
}

fn write_list<'p>(indexes: impl Iterator<Item = (&'p str, Option<bool>)>) -> Vec<u8> {
    let mut list = String::new();
    for (property, is_ready) in indexes {
        list.extend(["<TableIndex><Property>", &escape(property), "</Property>"]);
        if let Some(is_ready) = is_ready {
            list.extend(["<State>", if is_ready { READY } else { BUILDING }, "</State>"]);
        }
        list.push_str("</TableIndex>");
    }
    let root =
        if list.is_empty() { "<TableIndexes />".to_owned() } else { format!("<TableIndexes>{list}</TableIndexes>") };
    format!("{BYTE_ORDER_MARK}{DECLARATION}{root}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(content: &str) -> String {
        format!("<TableIndexes>{content}</TableIndexes>")
    }

    fn index(name: &str) -> String {
        format!("<TableIndex><Property>{name}</Property></TableIndex>")
    }

    #[test]
    fn a_list_reads_back() {
        for (body, expected) in [
            ("<TableIndexes/>".to_owned(), "<TableIndexes />".to_owned()),
            (list(" "), "<TableIndexes />".to_owned()),
            (
                list("<TableIndex><State>ready</State><Property> Größe </Property></TableIndex>"),
                list("<TableIndex><Property>Größe</Property><State>ready</State></TableIndex>"),
            ),
            (
                list(&(index("A") + "<TableIndex><Property>B</Property><State>other</State></TableIndex>")),
                list(
                    "<TableIndex><Property>A</Property><State>building</State></TableIndex><TableIndex><Property>B</Property><State>building</State></TableIndex>",
                ),
            ),
        ] {
            let written = String::from_utf8(write(&read(body.as_bytes()).unwrap())).unwrap();
            let root = written.strip_prefix("\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>").unwrap();
            assert_eq!(root, expected, "{body}");
        }
        let request = write_properties(["A", "B"]);
        assert_eq!(read(&request).unwrap().iter().map(|i| i.property.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    }

    #[test]
    fn faults() {
        let malformed = |body: String| (body, ErrorCode::InvalidXmlDocument, "");
        let nine: String = (0..9).map(|number| index(&format!("P{number}"))).collect();
        let cannot = "requires the valid name of a custom property";
        for (body, code, reason) in [
            malformed(String::new()),
            malformed(" ".to_owned()),
            malformed("<Other/>".to_owned()),
            malformed(list("A")),
            malformed(list("<Other/>")),
            malformed(list("<TableIndex/>")),
            malformed(list("<TableIndex>A</TableIndex>")),
            malformed(list("<TableIndex><Property>A</Property><Property>B</Property></TableIndex>")),
            malformed(list("<TableIndex><Property>A<b/></Property></TableIndex>")),
            malformed(list("<TableIndex><Property>A</Property><State><b/></State></TableIndex>")),
            malformed(list("<TableIndex><Property>A</Property><Other/></TableIndex>")),
            (list(&nine), ErrorCode::InvalidInput, "at most 8 indexes"),
            (list(&index("A").repeat(2)), ErrorCode::InvalidInput, "a property twice"),
            (list(&index("PartitionKey")), ErrorCode::InvalidInput, cannot),
            (list(&index("RowKey")), ErrorCode::InvalidInput, cannot),
            (list(&index("Timestamp")), ErrorCode::InvalidInput, cannot),
            (list(&index("1A")), ErrorCode::InvalidInput, cannot),
            (list(&index("")), ErrorCode::InvalidInput, cannot),
        ] {
            let error = read(body.as_bytes()).unwrap_err();
            assert_eq!(error.code, code, "{body}");
            assert!(error.message.contains(reason), "{body}: {}", error.message);
        }
    }
}
