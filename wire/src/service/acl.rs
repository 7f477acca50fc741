//! Stored access policies as XML: the body of Get and Set Table ACL (specification 10 §7).
//!
//! This module must not depend on what a policy is used for.

use crate::reason::{Reason, ReasonKind};
use crate::sas::parse_time;
use crate::xml::{BYTE_ORDER_MARK, DECLARATION, Element, escape};
use model::{DateTime, Permissions, StoredAccessPolicies, StoredAccessPolicy};

/// Parses the policies that a client sets. An empty body removes all policies. UNVERIFIED (10 §7): every error in a
/// policy causes the same response as malformed XML.
pub fn read(body: &[u8]) -> Result<StoredAccessPolicies, Reason> {
    if body.is_empty() {
        return Ok(StoredAccessPolicies::default());
    }
    let root = Element::parse(body)?;
    root.check_list("SignedIdentifiers")?;
    let policies: Result<Vec<_>, _> = root.children.iter().map(read_identifier).collect();
    StoredAccessPolicies::new(policies?).ok_or_else(|| {
        ReasonKind::XmlElement.because("There are more than 5 policies (SignedIdentifier), or two have the same Id.")
    })
}

fn read_identifier(identifier: &Element) -> Result<StoredAccessPolicy, Reason> {
    if &*identifier.name != "SignedIdentifier" {
        return Err(identifier.into());
    }
    let [id, content] = identifier.children_by_name(["Id", "AccessPolicy"])?;
    let id = id.ok_or_else(|| ReasonKind::XmlElement.because("A SignedIdentifier has no element Id."))?;
    id.plain_text()?;
    let mut policy = StoredAccessPolicy::new(&id.text).ok_or_else(|| {
        ReasonKind::XmlValue.because("The Id of a policy must have 1 to 64 characters.").quoting(&id.text)
    })?;
    let Some(content) = content else { return Ok(policy) };
    let [start, expiry, permission] = content.children_by_name(["Start", "Expiry", "Permission"])?;
    policy.start = read_value(start, TIME, parse_time)?;
    policy.expiry = read_value(expiry, TIME, parse_time)?;
    policy.permissions = read_value(permission, "letters of r, a, u and d", Permissions::parse_table)?;
    Ok(policy)
}

const TIME: &str = "a time in UTC, such as 2031-03-14T08:15:30Z";

/// Returns `None` if the element is absent or empty. `expected` describes the values that can be read.
fn read_value<T>(
    element: Option<&Element>,
    expected: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Reason> {
    let Some(element) = element else { return Ok(None) };
    let text = element.plain_text()?;
    if text.is_empty() {
        return Ok(None);
    }
    read(text).map(Some).ok_or_else(|| {
        let detail = format!("The value of {} must be {expected}.", element.name);
        ReasonKind::XmlValue.because(detail).quoting(text)
    })
}

/// Writes the policies as the service does, in the order in which they were set.
pub fn write(policies: &StoredAccessPolicies) -> Vec<u8> {
    let mut out = format!("{BYTE_ORDER_MARK}{DECLARATION}");
    if policies.is_empty() {
        out.push_str("<SignedIdentifiers />");
        return out.into_bytes();
    }
    out.push_str("<SignedIdentifiers>");
    for policy in policies.as_slice() {
        out.push_str("<SignedIdentifier>");
        write_value(&mut out, "Id", Some(escape(policy.id())));
        if policy.start.is_some() || policy.expiry.is_some() || policy.permissions.is_some() {
            out.push_str("<AccessPolicy>");
            write_value(&mut out, "Start", policy.start.map(seven_digits));
            write_value(&mut out, "Expiry", policy.expiry.map(seven_digits));
            write_value(&mut out, "Permission", policy.permissions.map(|permissions| permissions.to_string()));
            out.push_str("</AccessPolicy>");
        }
        out.push_str("</SignedIdentifier>");
    }
    out.push_str("</SignedIdentifiers>");
    out.into_bytes()
}

fn write_value(out: &mut String, name: &str, value: Option<String>) {
    if let Some(value) = value {
        out.extend(["<", name, ">", &value, "</", name, ">"]);
    }
}

fn seven_digits(time: DateTime) -> String {
    let mut out = Vec::with_capacity(28);
    time.write_seven_digits_to(&mut out);
    String::from_utf8(out).expect("the output is ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(body: &str) -> Result<String, Reason> {
        let policies = read(body.as_bytes())?;
        let text = String::from_utf8(write(&policies)).unwrap();
        Ok(text.strip_prefix("\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>").unwrap().to_owned())
    }

    #[test]
    fn policies_come_back_as_the_service_writes_them() {
        for (body, expected) in [
            ("", "<SignedIdentifiers />"),
            ("<SignedIdentifiers/>", "<SignedIdentifiers />"),
            ("\u{FEFF}<?xml version='1.0'?>\n<SignedIdentifiers>\n</SignedIdentifiers>", "<SignedIdentifiers />"),
            (
                "<SignedIdentifiers><SignedIdentifier><Id>pol-1</Id><AccessPolicy><Start>2031-03-01T09:30:00Z</Start><Expiry>2031-04-01T09:30:15Z</Expiry><Permission>raud</Permission></AccessPolicy></SignedIdentifier><SignedIdentifier><Id>pol-2</Id></SignedIdentifier></SignedIdentifiers>",
                "<SignedIdentifiers><SignedIdentifier><Id>pol-1</Id><AccessPolicy><Start>2031-03-01T09:30:00.0000000Z</Start><Expiry>2031-04-01T09:30:15.0000000Z</Expiry><Permission>raud</Permission></AccessPolicy></SignedIdentifier><SignedIdentifier><Id>pol-2</Id></SignedIdentifier></SignedIdentifiers>",
            ),
            (
                "<SignedIdentifiers> <SignedIdentifier> <AccessPolicy> <Permission> ra </Permission> <Expiry>2031-03-01</Expiry> <Start/></AccessPolicy> <Id>a &amp; b</Id> </SignedIdentifier> </SignedIdentifiers>",
                "<SignedIdentifiers><SignedIdentifier><Id>a &amp; b</Id><AccessPolicy><Expiry>2031-03-01T00:00:00.0000000Z</Expiry><Permission>ra</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
            ),
            (
                "<SignedIdentifiers><SignedIdentifier><Id>x</Id><AccessPolicy /></SignedIdentifier></SignedIdentifiers>",
                "<SignedIdentifiers><SignedIdentifier><Id>x</Id></SignedIdentifier></SignedIdentifiers>",
            ),
        ] {
            assert_eq!(round_trip(body).unwrap(), expected, "{body}");
        }
    }

    #[test]
    fn faults() {
        let policy = |content: &str| {
            format!("<SignedIdentifiers><SignedIdentifier>{content}</SignedIdentifier></SignedIdentifiers>")
        };
        let one = |i: usize| format!("<SignedIdentifier><Id>{i}</Id></SignedIdentifier>");
        let six = (0..6).map(one).collect::<Vec<_>>().concat();
        let long = "x".repeat(65);
        for (body, expected) in [
            (" ".to_owned(), "xml-malformed: "),
            ("<Other/>".to_owned(), "xml-element: An XML element SignedIdentifiers "),
            (format!("<SignedIdentifiers>{six}</SignedIdentifiers>"), "xml-element: There are more than 5 policies"),
            ("<SignedIdentifiers><Other/></SignedIdentifiers>".to_owned(), "xml-element: "),
            (policy(""), "xml-element: A SignedIdentifier has no element Id."),
            (policy("<Id/>"), "xml-value: The Id of a policy"),
            (policy("<Id>a<b/></Id>"), "xml-element: "),
            (policy("<Id>a</Id><Id>b</Id>"), "xml-element: "),
            (policy(&format!("<Id>{long}</Id>")), "xml-value: The Id of a policy"),
            (policy("<Id>a</Id><Other/>"), "xml-element: "),
            (policy("<Id>a</Id></SignedIdentifier><SignedIdentifier><Id>a</Id>"), "xml-element: There are more than 5"),
            (
                policy("<Id>a</Id><AccessPolicy><Permission>rl</Permission></AccessPolicy>"),
                "xml-value: The value of Permission must be letters of r, a, u and d. Given: 'rl'.",
            ),
            (
                policy("<Id>a</Id><AccessPolicy><Start>tomorrow</Start></AccessPolicy>"),
                "xml-value: The value of Start ",
            ),
            (policy("<Id>a</Id><AccessPolicy><Expiry>2031-03-01T09:30:00</Expiry></AccessPolicy>"), "xml-value: "),
            (policy("<Id>a</Id><AccessPolicy><Start><b/></Start></AccessPolicy>"), "xml-element: "),
        ] {
            let line = read(body.as_bytes()).unwrap_err().line(true);
            assert!(line.starts_with(expected), "{body}: {line}");
        }
    }
}
