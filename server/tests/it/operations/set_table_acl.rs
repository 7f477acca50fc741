//! Set Table ACL (02 §4.6, 10 §7).

use crate::Layer::FrontEnd;
use crate::{Case, Server, check, get, put, signature};

const POLICIES: &str = "/cars?comp=acl";
const XML_MESSAGE: &str = "XML specified is not syntactically valid.";

fn policy(id: &str, more: &str) -> String {
    format!("<SignedIdentifier><Id>{id}</Id>{more}</SignedIdentifier>")
}

fn set(policies: &str) -> Case {
    put(POLICIES, &format!("<SignedIdentifiers>{policies}</SignedIdentifiers>"))
}

#[test]
fn the_whole_list_is_replaced() {
    let stored =
        |policies: &str| get(POLICIES).ok(200).xml(&format!("<SignedIdentifiers>{policies}</SignedIdentifiers>"));
    let five: String = (1..=5).map(|number| policy(&number.to_string(), "")).collect();
    let read = policy("b", "<AccessPolicy><Permission>r</Permission></AccessPolicy>");
    check(
        &Server::with_tables(&["cars"]),
        [
            set(&five).ok(204).layer(FrontEnd),
            stored(&five),
            set(&read).with("Content-Type", "application/xml").ok(204).layer(FrontEnd),
            stored(&read),
            // An empty list and an empty body remove all policies, whatever the media type.
            set("").ok(204).layer(FrontEnd),
            get(POLICIES).ok(200).xml("<SignedIdentifiers />"),
            set(&read).ok(204).layer(FrontEnd),
            put(POLICIES, "").without("Content-Type").ok(204).layer(FrontEnd),
            get(POLICIES).ok(200).xml("<SignedIdentifiers />"),
        ],
    );
}

#[test]
fn policies_that_are_refused() {
    let six: String = (1..=6).map(|number| policy(&number.to_string(), "")).collect();
    let of = |more: &str| policy("a", &format!("<AccessPolicy>{more}</AccessPolicy>"));
    let refused = [
        six,
        policy("a", "") + &policy("a", ""),
        policy("", ""),
        policy(&"i".repeat(65), ""),
        of("<Permission>x</Permission>"),
        of("<Start>yesterday</Start>"),
        "<SignedIdentifier></SignedIdentifier>".to_owned(),
        "<SignedIdentifier>".to_owned(),
    ];
    let server = Server::with_tables(&["cars"]);
    check(&server, [set(&policy("kept", "")).ok(204).layer(FrontEnd)]);
    check(&server, refused.map(|policies| set(&policies).fails(400, "InvalidXmlDocument", FrontEnd).says(XML_MESSAGE)));
    let kept = format!("<SignedIdentifiers>{}</SignedIdentifiers>", policy("kept", ""));
    check(&server, [get(POLICIES).ok(200).xml(&kept)]);
    let missing = "The table specified does not exist.";
    check(
        &server,
        [
            put("/other?comp=acl", "").fails(404, "TableNotFound", FrontEnd).says(missing),
            put("/a-b?comp=acl", "").fails(400, "InvalidResourceName", FrontEnd),
            // A body above 1 MiB (10).
            put(POLICIES, &" ".repeat(1024 * 1024 + 1)).fails(413, "RequestBodyTooLarge", FrontEnd),
        ],
    );
}

#[test]
fn policies_take_effect_at_once() {
    // 08 §7: the policy supplies what the signature lacks, and removing it revokes the signature.
    let named = signature("", |fields| (fields.policy, fields.expiry) = ("b".into(), "".into()));
    let query = || get("/cars()").signed(&named);
    let valid = "<AccessPolicy><Expiry>2031-03-15</Expiry><Permission>r</Permission></AccessPolicy>";
    let expired = valid.replace("-15<", "-14<");
    check(
        &Server::with_tables(&["cars"]),
        [
            query().answers(403, "AuthenticationFailed"),
            set(&policy("b", valid)).ok(204).layer(FrontEnd),
            query().answers(200, None),
            set(&policy("b", &expired)).ok(204).layer(FrontEnd),
            query().answers(403, "AuthenticationFailed"),
            set(&policy("B", valid)).ok(204).layer(FrontEnd),
            query().answers(403, "AuthenticationFailed"),
        ],
    );
}
