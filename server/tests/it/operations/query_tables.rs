//! Query Tables (02 §4.1, 04 §7).

use crate::Layer::{Query, Storage};
use crate::{Case, Server, check, get};

const TABLES: [&str; 4] = ["beta", "Alpha", "gamma", "delta1"];

fn list(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{{\"TableName\":\"{name}\"}}")).collect();
    format!("{{\"value\":[{}]}}", names.join(","))
}

/// Expects the given tables, without metadata.
fn finds(query: &str, names: &[&str]) -> Case {
    get(&format!("/Tables{query}")).level("nometadata").ok(200).json(&list(names))
}

#[test]
fn tables_are_in_the_order_of_their_names_whatever_their_case() {
    let minimal = r#"{"odata.metadata":"BASE/$metadata#Tables","value":[{"TableName":"Alpha"},{"TableName":"beta"},{"TableName":"delta1"},{"TableName":"gamma"}]}"#;
    let full = r#"{"odata.metadata":"BASE/$metadata#Tables","value":[{"odata.type":"devstoreaccount1.Tables","odata.id":"BASE/Tables('Alpha')","odata.editLink":"Tables('Alpha')","TableName":"Alpha"}]}"#;
    check(
        &Server::with_tables(&TABLES),
        [
            get("/Tables").ok(200).json(minimal),
            get("/Tables()").with("Accept", "application/json").ok(200).json(minimal),
            get("/Tables?$filter=TableName%20lt%20'b'").level("fullmetadata").ok(200).json(full),
            finds("", &["Alpha", "beta", "delta1", "gamma"]),
        ],
    );
    check(&Server::start(), [finds("", &[])]);
}

#[test]
fn pages_and_tokens() {
    // The token has the lower-case name, which the service follows by U+0001 and a creation stamp (04 §6).
    let next = "x-ms-continuation-nexttablename";
    let stamped = "NextTableName=1!16!YmV0YQEwMDAwMDAw"; // beta, U+0001, digits
    check(
        &Server::with_tables(&TABLES),
        [
            finds("?$top=2", &["Alpha", "beta"]).header(next, "1!8!ZGVsdGEx"),
            finds("?$top=2&NextTableName=1!8!ZGVsdGEx", &["delta1", "gamma"]),
            finds(&format!("?$top=1&{stamped}"), &["beta"]).header(next, "1!8!ZGVsdGEx"),
            finds("?NextTableName=Delta1", &["delta1", "gamma"]),
            finds("?$top=4", &["Alpha", "beta", "delta1", "gamma"]),
            finds("?$top=0", &[]),
            // The page looks ahead for the next match (04 §5).
            finds("?$top=1&$filter=TableName%20lt%20'b'", &["Alpha"]),
            finds("?$top=1&$filter=TableName%20ge%20'b'", &["beta"]).header(next, "1!8!ZGVsdGEx"),
        ],
    );
}

#[test]
fn filters() {
    check(
        &Server::with_tables(&TABLES),
        [
            finds("?$filter=TableName%20eq%20'ALPHA'", &["Alpha"]),
            finds("?$filter=TableName%20ge%20'b'%20and%20TableName%20lt%20'b%7B'", &["beta"]),
            finds("?$filter=not%20(TableName%20eq%20'beta')", &["Alpha", "delta1", "gamma"]),
            finds("?$filter=", &["Alpha", "beta", "delta1", "gamma"]),
        ],
    );
}

/// An extension (`docs/extensions.md`).
#[test]
fn string_functions() {
    let server = Server::with(|settings| settings.extensions = true);
    server.create(&TABLES);
    let token = "x-ms-continuation-nexttablename";
    check(
        &server,
        [
            finds("?$filter=startswith(TableName,'AL')", &["Alpha"]),
            finds("?$filter=endswith(TableName,'A')", &["Alpha", "beta", "gamma"]),
            finds("?$filter=contains(TableName,'lt')", &["delta1"]),
            finds("?$filter=substringof('PH',TableName)%20eq%20true", &["Alpha"]),
            finds("?$filter=not%20startswith(TableName,'b')", &["Alpha", "delta1", "gamma"]),
            finds("?$filter=startswith(TableName,'')", &["Alpha", "beta", "delta1", "gamma"]),
            finds("?$filter=startswith(TableName,'x')", &[]),
            finds("?$top=1&$filter=contains(TableName,'ta')", &["beta"]).header(token, "1!8!ZGVsdGEx"),
            get("/Tables?$filter=startswith(Color,'r')").fails(400, "InvalidInput", Query),
            get("/Tables?$filter=startswith(TableName,5)").fails(400, "InvalidInput", Query),
            get("/Tables?$filter=startswith(TableName,TableName)").fails(501, "NotImplemented", Query),
        ],
    );
}

#[test]
fn without_extensions_there_are_no_functions() {
    let refused = |filter: &str| get(&format!("/Tables?$filter={filter}")).fails(501, "NotImplemented", Query);
    check(
        &Server::with_tables(&TABLES),
        [
            refused("startswith(TableName,'a')"),
            refused("endswith(TableName,'a')"),
            refused("contains(Color,'a')"),
            refused("substringof('a',TableName)%20eq%20true"),
        ],
    );
}

#[test]
fn options_that_are_refused() {
    // 04 §7: `$top` is checked before the filter.
    let generic = "One of the request inputs is not valid.";
    check(
        &Server::with_tables(&TABLES),
        [
            get("/Tables?$top=-1&$filter=x").fails(400, "InvalidInput", Storage).says(generic),
            get("/Tables?$top=1001").fails(400, "InvalidInput", Storage).says(generic),
            get("/Tables?$filter=Color%20eq%20'red'").fails(400, "InvalidInput", Query).says(generic),
            get("/Tables?$filter=aaa%20bbb%20ccc")
                .fails(400, "InvalidInput", Query)
                .says("Syntax error at position 7 in 'aaa bbb ccc'."),
            get("/Tables?$orderby=TableName").fails(501, "NotImplemented", Storage),
            get("/Tables?NextTableName=1!4!x").fails(400, "InvalidInput", Query),
        ],
    );
}
