//! The retention of a table as XML: the body of Get and Set Table Retention, extensions of this server.
//!
//! ```text
//! <TableRetention><Property>Expires</Property><Seconds>0</Seconds></TableRetention>
//! ```
//!
//! Without `Property`, the time counts from the Timestamp. An empty element means that the table has no retention.

use crate::reason::{Reason, ReasonKind};
use crate::xml::{BYTE_ORDER_MARK, DECLARATION, Element, escape};
use model::Retention;

/// Parses the retention that a client sets, or `None` if entities are to be kept until they are deleted.
pub fn read(body: &[u8]) -> Result<Option<Retention>, Reason> {
    let root = Element::parse(body)?;
    root.check_list("TableRetention")?;
    if root.children.is_empty() {
        return Ok(None);
    }
    let [property, seconds] = root.children_by_name(["Property", "Seconds"])?;
    let seconds = seconds.ok_or_else(|| ReasonKind::XmlElement.because("The element Seconds is missing."))?;
    let seconds = seconds.plain_text()?;
    let invalid = |text: &str| ReasonKind::XmlValue.because(VALUES).quoting(text);
    // `parse` also accepts a plus sign.
    let number = seconds.parse().ok().filter(|_| seconds.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.ok_or_else(|| invalid(seconds))?;
    match property {
        None => Retention::by_age(number).map(Some).ok_or_else(|| invalid(seconds)),
        Some(property) => {
            let property = property.plain_text()?;
            Retention::by_property(property, number).map(Some).ok_or_else(|| invalid(property))
        }
    }
}

const VALUES: &str = "Seconds must be a whole number up to 3,153,600,000, and at least 1 without Property; Property must be \
                      the name of a custom property.";

/// Writes a retention.
pub fn write(retention: Option<&Retention>) -> Vec<u8> {
    let root = match retention {
        None => "<TableRetention />".to_owned(),
        Some(retention) => {
            let property = retention.property().map(|name| format!("<Property>{}</Property>", escape(name)));
            let (property, seconds) = (property.unwrap_or_default(), retention.seconds());
            format!("<TableRetention>{property}<Seconds>{seconds}</Seconds></TableRetention>")
        }
    };
    format!("{BYTE_ORDER_MARK}{DECLARATION}{root}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_comes_back() {
        let none = "<TableRetention />";
        let by_age = "<TableRetention><Seconds>3600</Seconds></TableRetention>";
        let by_property = "<TableRetention><Property>Été</Property><Seconds>0</Seconds></TableRetention>";
        for (body, expected) in [
            (none, none),
            ("<TableRetention></TableRetention>", none),
            (by_age, by_age),
            ("<?xml version='1.0'?>\n<TableRetention>\n<Seconds> 3600\n</Seconds></TableRetention>", by_age),
            (by_property, by_property),
            ("<TableRetention><Seconds>0</Seconds><Property>Été</Property></TableRetention>", by_property),
        ] {
            let written = write(read(body.as_bytes()).unwrap().as_ref());
            let written = String::from_utf8(written).unwrap();
            assert_eq!(written, format!("\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>{expected}"), "{body}");
        }
    }

    #[test]
    fn faults() {
        let of = |content: &str| format!("<TableRetention>{content}</TableRetention>");
        for body in [
            String::new(),
            "<Other/>".to_owned(),
            of("text"),
            of("<Property>Ends</Property>"),
            of("<Seconds/>"),
            of("<Seconds>0</Seconds>"),
            of("<Seconds>+5</Seconds>"),
            of("<Seconds>-5</Seconds>"),
            of("<Seconds>1.5</Seconds>"),
            of("<Seconds>3153600001</Seconds>"),
            of("<Seconds>99999999999</Seconds>"),
            of("<Seconds>5</Seconds><Seconds>5</Seconds>"),
            of("<Seconds>5<b/></Seconds>"),
            of("<Seconds>5</Seconds><Property/>"),
            of("<Seconds>5</Seconds><Property>a b</Property>"),
            of("<Seconds>5</Seconds><Property>Timestamp</Property>"),
            of("<Seconds>5</Seconds><Other/>"),
        ] {
            let line = read(body.as_bytes()).unwrap_err().line(true);
            assert!(line.starts_with("xml-"), "{body}: {line}");
        }
    }
}
