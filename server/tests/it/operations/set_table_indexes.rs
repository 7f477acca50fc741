//! Set Table Indexes, an extension (`docs/extensions.md`).

use super::get_table_indexes::{list, server};
use crate::Layer::FrontEnd;
use crate::{Case, check, delete, get, post, put, signature};

const INDEXES: &str = "/cars?comp=indexes";

fn set(properties: &[&str]) -> Case {
    put(INDEXES, &list(properties))
}

fn stored(properties: &[&str]) -> Case {
    let list = list(properties).replace("</Property>", "</Property><State>ready</State>");
    get(INDEXES).ok(200).xml(if properties.is_empty() { "<TableIndexes />" } else { &list })
}

#[test]
fn the_whole_list_is_replaced() {
    let eight = ["A", "B", "C", "D", "E", "F", "G", "H"];
    let with_states = list(&["A", "B"]).replace("</Property>", "</Property><State>building</State>");
    check(
        &server(),
        [
            set(&eight).ok(204).layer(FrontEnd),
            stored(&eight),
            set(&["H", "I"]).with("Content-Type", "application/xml").ok(204).layer(FrontEnd),
            stored(&["H", "I"]),
            // What a client has read, it can write.
            put(INDEXES, &with_states).ok(204).layer(FrontEnd),
            stored(&["A", "B"]),
            put(INDEXES, "<TableIndexes/>").ok(204).layer(FrontEnd),
            stored(&[]),
        ],
    );
}

#[test]
fn a_new_table_of_the_same_name_has_no_indexes() {
    check(
        &server(),
        [
            set(&["A"]).ok(204).layer(FrontEnd),
            delete("/Tables('cars')").answers(204, None),
            post("/Tables", r#"{"TableName":"cars"}"#).answers(201, None),
            stored(&[]),
        ],
    );
}

#[test]
fn lists_that_are_refused() {
    let server = server();
    check(&server, [set(&["Kept"]).ok(204).layer(FrontEnd)]);
    let nine = ["A", "B", "C", "D", "E", "F", "G", "H", "I"];
    let name = "An index requires the valid name of a custom property. PartitionKey, RowKey and Timestamp cannot have an index.";
    for (case, message) in [
        (set(&nine), "A table can have at most 8 indexes."),
        (set(&["A", "A"]), "The list of indexes contains a property twice."),
        (set(&["PartitionKey"]), name),
        (set(&["RowKey"]), name),
        (set(&["Timestamp"]), name),
        (set(&["a-b"]), name),
        (set(&[&"n".repeat(256)]), name),
        (set(&[""]), name),
    ] {
        check(&server, [case.fails(400, "InvalidInput", FrontEnd).says(message)]);
    }
    for body in ["", "<x/>", "<TableIndexes>", "<TableIndexes><TableIndex/></TableIndexes>"] {
        let message = "XML specified is not syntactically valid.";
        check(&server, [put(INDEXES, body).fails(400, "InvalidXmlDocument", FrontEnd).says(message)]);
    }
    let all = signature("raud", |_| {});
    check(
        &server,
        [
            put("/other?comp=indexes", &list(&["A"])).fails(404, "TableNotFound", FrontEnd),
            put("/a-b?comp=indexes", &list(&["A"])).fails(400, "InvalidResourceName", FrontEnd),
            put(INDEXES, &" ".repeat(1024 * 1024 + 1)).fails(413, "RequestBodyTooLarge", FrontEnd),
            put("-secondary/cars?comp=indexes", &list(&["A"])).answers(403, "InsufficientAccountPermissions"),
            set(&["A"]).signed(&all).answers(403, "AuthorizationFailure"),
            stored(&["Kept"]),
        ],
    );
}
