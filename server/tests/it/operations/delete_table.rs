//! Delete Table (02 §4.4).

use crate::Layer::{Query, Storage};
use crate::{Server, check, delete, get, post};

#[test]
fn a_deleted_table_is_gone_with_its_entities_and_its_name_is_free() {
    let created = r#"{"TableName":"cars"}"#;
    check(
        &Server::with_tables(&["MyCars"]),
        [
            post("/MyCars", r#"{"PartitionKey":"p","RowKey":"r"}"#).answers(201, None),
            delete("/Tables('MYCARS')").ok(204),
            get("/MyCars()").fails(404, "TableNotFound", Query).says("The table specified does not exist."),
            get("/Tables").level("nometadata").ok(200).json(r#"{"value":[]}"#),
            delete("/Tables('MyCars')").fails(404, "ResourceNotFound", Storage),
            post("/Tables", &created.replace("cars", "mycars")).answers(201, None),
            get("/mycars()").level("nometadata").ok(200).json(r#"{"value":[]}"#),
        ],
    );
}

#[test]
fn requests_that_need_no_format_and_no_condition() {
    // `*/*`, and no `Accept` at all (02 §4.4, 03 §1.3).
    let server = Server::with_tables(&["one", "two", "three"]);
    check(
        &server,
        [
            delete("/Tables('one')").with("Accept", "*/*").ok(204),
            delete("/Tables('two')").without("Accept").ok(204),
            delete("/Tables('three')").with("If-Match", "nonsense").ok(204),
        ],
    );
}

#[test]
fn what_does_not_exist() {
    let missing = "The specified resource does not exist.";
    let names = ["other", "tables", "a-b", "x", "$MetricsHourPrimaryTransactionsTable"];
    let cases =
        names.map(|name| delete(&format!("/Tables('{name}')")).fails(404, "ResourceNotFound", Storage).says(missing));
    check(&Server::with_tables(&["cars"]), cases);
}
