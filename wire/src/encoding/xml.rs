//! Small XML documents without a document type declaration or custom entities (specification 10).
//!
//! Invariants:
//!
//! 1. Parsing takes time and memory linear in the size of the document, and rejects more than `ELEMENTS_MAX` elements.
//! 2. Only the five predefined entities and character references are expanded.
//!
//! This module must not depend on what a document means.

use crate::reason::{Reason, ReasonKind};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::fmt;

/// Maximum number of elements in a document. The service's largest has fewer than a hundred.
const ELEMENTS_MAX: usize = 1000;
/// Maximum nesting of elements. The service's deepest document has four levels.
const DEPTH_MAX: usize = 16;
/// The byte order mark. Some clients send it before a body, and the service writes it before every document.
pub const BYTE_ORDER_MARK: &str = "\u{FEFF}";
/// The XML declaration at the start of every document, after the byte order mark.
pub const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
/// The declaration of Atom documents and errors in the first form (03 §5.5).
pub const FIRST_DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>";

const NOT_WELL_FORMED: MalformedXml =
    MalformedXml("is not well-formed XML: it must be one element, in which each tag has its end tag");

/// An element and its content. Attributes, comments and processing instructions are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Element {
    /// The name as written.
    pub name: Box<str>,
    /// The elements inside, in order.
    pub children: Vec<Element>,
    /// The text directly inside, including white space.
    pub text: String,
}

/// The error for a document that this parser does not accept: what is wrong, as a clause about the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedXml(&'static str);

impl fmt::Display for MalformedXml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the body {}", self.0)
    }
}

impl From<MalformedXml> for Reason {
    fn from(MalformedXml(what): MalformedXml) -> Self {
        ReasonKind::XmlMalformed.because(format!("The body {what}."))
    }
}

/// The element is not allowed in its position.
impl From<&Element> for Reason {
    fn from(element: &Element) -> Self {
        let detail = "The body contains an XML element that is not allowed there, or that occurs twice.";
        ReasonKind::XmlElement.because(detail).quoting(&element.name)
    }
}

impl Element {
    /// Parses a document.
    pub fn parse(document: &[u8]) -> Result<Self, MalformedXml> {
        let text = std::str::from_utf8(document).map_err(|_| MalformedXml("is not UTF-8"))?;
        if !text.chars().all(is_character) {
            return Err(MalformedXml("contains a character that XML does not allow"));
        }
        let mut reader = Reader::from_str(text.trim_start_matches(BYTE_ORDER_MARK));
        // The open elements, outermost first. The first one is a frame around the root.
        let mut open = vec![Self::default()];
        let mut elements = 0;
        loop {
            let event = reader.read_event().map_err(|_| NOT_WELL_FORMED)?;
            let innermost = open.last_mut().ok_or(NOT_WELL_FORMED)?;
            match event {
                Event::Start(tag) | Event::Empty(tag) if elements == ELEMENTS_MAX => {
                    drop(tag);
                    return Err(MalformedXml("has more than 1000 elements"));
                }
                Event::Start(tag) => {
                    elements += 1;
                    if open.len() > DEPTH_MAX {
                        return Err(MalformedXml("has elements in more than 16 levels"));
                    }
                    open.push(Self { name: Box::from(tag.name().0), ..Self::default() });
                }
                Event::Empty(tag) => {
                    elements += 1;
                    innermost.children.push(Self { name: Box::from(tag.name().0), ..Self::default() });
                }
                Event::End(_) => {
                    let ended = open.pop().ok_or(NOT_WELL_FORMED)?;
                    open.last_mut().ok_or(NOT_WELL_FORMED)?.children.push(ended);
                }
                Event::Text(text) => innermost.text.push_str(&text.xml10_content()),
                Event::CData(text) => innermost.text.push_str(&text.xml10_content()),
                Event::GeneralRef(reference) => {
                    let character = referenced_character(&reference).filter(|c| is_character(*c));
                    innermost.text.push(character.ok_or(MalformedXml("contains an entity that XML does not define"))?);
                }
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
                Event::DocType(_) => return Err(MalformedXml("has a document type declaration")),
                Event::Eof => break,
            }
        }
        Self::root(open)
    }

    /// Checks the name of the element, and that it contains no text between its children.
    pub fn check_list(&self, name: &str) -> Result<(), Reason> {
        if &*self.name == name && self.text.trim().is_empty() {
            return Ok(());
        }
        let detail = format!("An XML element {name} with nothing but elements inside is expected.");
        Err(ReasonKind::XmlElement.because(detail).quoting(&self.name))
    }

    /// Returns the text of an element without children.
    pub fn plain_text(&self) -> Result<&str, Reason> {
        self.children.first().map_or(Ok(self.text.trim()), |child| Err(child.into()))
    }

    /// Returns the children by name, in any order. The error is the first child that is a duplicate or has a name that
    /// is not listed.
    pub fn children_by_name<const N: usize>(&self, names: [&str; N]) -> Result<[Option<&Self>; N], &Self> {
        let mut found = [None; N];
        for child in &self.children {
            let slot = names.iter().position(|name| *name == &*child.name).and_then(|at| found.get_mut(at));
            if slot.is_none_or(|slot| slot.replace(child).is_some()) {
                return Err(child);
            }
        }
        Ok(found)
    }

    /// Only white space may surround the root element.
    fn root(mut open: Vec<Self>) -> Result<Self, MalformedXml> {
        let mut frame = open.pop().filter(|_| open.is_empty()).ok_or(NOT_WELL_FORMED)?;
        let root = frame.children.pop().ok_or(NOT_WELL_FORMED)?;
        if frame.children.is_empty() && frame.text.trim().is_empty() { Ok(root) } else { Err(NOT_WELL_FORMED) }
    }
}

/// Returns the character of a reference, even one that XML 1.0 does not allow.
pub(crate) fn referenced_character(reference: &str) -> Option<char> {
    if let Some(number) = reference.strip_prefix('#') {
        let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |digits| (digits, 16));
        let is_number = digits.bytes().all(|b| b.is_ascii_hexdigit());
        return u32::from_str_radix(digits, radix).ok().filter(|_| is_number).and_then(char::from_u32);
    }
    match reference {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

/// Returns true if XML 1.0 allows a character, literally or as a reference.
pub(crate) fn is_character(c: char) -> bool {
    !matches!(c, '\0'..='\x08' | '\x0B' | '\x0C' | '\x0E'..='\x1F' | '\u{FFFE}' | '\u{FFFF}')
}

/// Escapes character data, and replaces characters that XML 1.0 does not allow with U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\t' | '\n' => out.push(c),
            '\r' => out.push_str("&#xD;"),
            _ => out.push(if is_character(c) { c } else { '\u{FFFD}' }),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn documents() {
        let element = |name: &str, text: &str| Element { name: name.into(), text: text.into(), children: Vec::new() };
        let b = element("b", "x & y <é>é");
        let with = |children| Element { children, ..element("a", "") };
        for (document, expected) in [
            ("<a/>", element("a", "")),
            ("<a></a>", element("a", "")),
            ("\u{FEFF}<?xml version='1.0' encoding='utf-8'?>\n<!-- c --><a />\n", element("a", "")),
            ("<a><b>x &amp; y &lt;é&gt;&#xE9;</b></a>", with(vec![b.clone()])),
            ("<a><b><![CDATA[x & y <é>]]>&#233;</b></a>", with(vec![b])),
            ("<a><b/><!-- between --><c></c></a>", with(vec![element("b", ""), element("c", "")])),
        ] {
            assert_eq!(Element::parse(document.as_bytes()), Ok(expected), "{document}");
        }
    }

    #[test]
    fn what_is_not_a_plain_document_is_refused() {
        let (deep, wide) = ("<a>".repeat(40) + &"</a>".repeat(40), format!("<a>{}</a>", "<b/>".repeat(1000)));
        for document in [
            "",
            " ",
            "a",
            "<a>",
            "</a>",
            "<a></b>",
            "<a/><b/>",
            "x<a/>",
            "<a/>x",
            "<a>&nbsp;</a>",
            "<a>&#1;</a>",
            "<a>\u{1}</a>",
            "<a>\u{FFFF}</a>",
            "<a>&</a>",
            "<!DOCTYPE a><a/>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
            &deep,
            &wide,
        ] {
            assert!(Element::parse(document.as_bytes()).is_err(), "{document}");
        }
        for (document, expected) in [
            (&b"<a>\xFF</a>"[..], "xml-malformed: The body is not UTF-8. "),
            (b"<a>", "xml-malformed: The body is not well-formed XML: "),
            (b"<a>&nbsp;</a>", "xml-malformed: The body contains an entity "),
            (b"<!DOCTYPE a><a/>", "xml-malformed: The body has a document type declaration. "),
            (wide.as_bytes(), "xml-malformed: The body has more than 1000 elements. "),
            (deep.as_bytes(), "xml-malformed: The body has elements in more than 16 levels. "),
        ] {
            let line = Reason::from(Element::parse(document).unwrap_err()).line(true);
            assert!(line.starts_with(expected), "{line}");
        }
    }

    proptest! {
        #[test]
        fn escaped_text_reads_back(text in "[ -~é😀\t\n\r]{0,20}") {
            let document = format!("<a>{}</a>", escape(&text));
            prop_assert_eq!(Element::parse(document.as_bytes()).unwrap().text, text);
        }

        #[test]
        fn no_bytes_cause_a_panic(document in "(<a>|</a>|<b/>|<!|\\]>|&#|;|x|<\\?|-->){0,12}") {
            let _ = Element::parse(document.as_bytes());
        }
    }
}
