//! Get Table ACL (02 §4.5, 10 §7).

use crate::Layer::FrontEnd;
use crate::{Case, Server, check, get, put};

#[test]
fn policies() {
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>pol-1</Id><AccessPolicy><Start>2031-03-01</Start><Expiry>2031-04-01T09:30:15Z</Expiry><Permission>raud</Permission></AccessPolicy></SignedIdentifier><SignedIdentifier><Id>pol-2</Id></SignedIdentifier></SignedIdentifiers>";
    let returned = policies.replace("2031-03-01<", "2031-03-01T00:00:00.0000000Z<").replace(":15Z", ":15.0000000Z");
    check(
        &Server::with_tables(&["cars"]),
        [
            get("/cars?comp=acl").ok(200).xml("<SignedIdentifiers />"),
            put("/cars?comp=acl", policies).ok(204).layer(FrontEnd),
            get("/cars?comp=acl").ok(200).xml(&returned),
            // No format is negotiated, and the name's case does not matter.
            get("/CARS?comp=acl").without("Accept").ok(200).xml(&returned),
            get("/cars()?comp=acl").with("Accept", "application/atom+xml").ok(200).xml(&returned),
            Case::new("HEAD", "/cars?comp=acl", "").ok(200).xml(""),
        ],
    );
}

#[test]
fn a_table_without_policies_and_one_that_does_not_exist() {
    let missing = "The table specified does not exist.";
    let characters = "The specifed resource name contains invalid characters.";
    check(
        &Server::with_tables(&["cars"]),
        [
            get("/other?comp=acl").fails(404, "TableNotFound", FrontEnd).says(missing),
            // Bad and reserved names (01 §2).
            get("/a-b?comp=acl").fails(400, "InvalidResourceName", FrontEnd).says(characters),
            get("/$MetricsHourPrimaryTransactionsTable?comp=acl").fails(404, "TableNotFound", FrontEnd),
            Case::new("POST", "/cars?comp=acl", "").fails(405, "UnsupportedHttpVerb", FrontEnd),
            Case::new("DELETE", "/cars?comp=acl", "").fails(405, "UnsupportedHttpVerb", FrontEnd),
        ],
    );
}
