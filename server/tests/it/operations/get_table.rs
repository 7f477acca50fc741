//! Get one entry of the list of tables (02 §4.2).

use crate::Layer::{Format, Storage};
use crate::{Server, check, get};

#[test]
fn the_entry_has_the_spelling_of_the_creation() {
    let full = r#"{"odata.metadata":"BASE/$metadata#Tables/@Element","odata.type":"devstoreaccount1.Tables","odata.id":"BASE/Tables('MyCars')","odata.editLink":"Tables('MyCars')","TableName":"MyCars"}"#;
    let minimal = r#"{"odata.metadata":"BASE/$metadata#Tables/@Element","TableName":"MyCars"}"#;
    let none = r#"{"TableName":"MyCars"}"#;
    check(
        &Server::with_tables(&["MyCars"]),
        [
            get("/Tables('mycars')").ok(200).json(minimal),
            get("/Tables('MyCars')").level("fullmetadata").ok(200).json(full),
            get("/Tables('MyCars')").level("nometadata").ok(200).json(none),
        ],
    );
}

#[test]
fn what_does_not_exist() {
    // Bad, reserved and unknown names alike (01 §2).
    let missing = "The specified resource does not exist.";
    let names = ["other", "tables", "a-b", "x", "$MetricsHourPrimaryTransactionsTable"];
    let cases =
        names.map(|name| get(&format!("/Tables('{name}')")).fails(404, "ResourceNotFound", Storage).says(missing));
    let server = Server::with_tables(&["cars"]);
    check(&server, cases);
    // The format is resolved before the table is looked up (06 §6).
    let no_format = get("/Tables('other')").without("Accept");
    check(&server, [no_format.fails(415, "AtomFormatNotSupported", Format).in_xml()]);
}
