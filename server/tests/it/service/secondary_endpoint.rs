//! The secondary endpoint (07 §7): it reads, and refuses all writes.

use crate::Layer::{FrontEnd, Storage};
use crate::{Case, Server, check, delete, get, merge, post, put};
use rowhouse_server::Secondary;

const ENTITY: &str = "-secondary/cars(PartitionKey='p',RowKey='r')";
const WRITE: &str = "Write operations are not allowed.";
const READ: &str = "Read operations are currently disabled.";

/// Returns the operations that write, for the secondary endpoint.
fn writes() -> Vec<(Case, bool)> {
    let odata = [
        post("-secondary/Tables", r#"{"TableName":"more"}"#),
        delete("-secondary/Tables('cars')"),
        post("-secondary/cars", r#"{"PartitionKey":"p","RowKey":"s"}"#),
        put(ENTITY, "{}"),
        put(ENTITY, "{}").with("If-Match", "*"),
        merge(ENTITY, "{}"),
        merge(ENTITY, "{}").with("If-Match", "*"),
        delete(ENTITY).with("If-Match", "*"),
    ];
    let xml = [put("-secondary/cars?comp=acl", ""), put("-secondary/?restype=service&comp=properties", "<x/>")];
    odata.into_iter().map(|case| (case, false)).chain(xml.into_iter().map(|case| (case, true))).collect()
}

fn refused((case, is_xml): (Case, bool)) -> Case {
    case.fails(403, "InsufficientAccountPermissions", if is_xml { FrontEnd } else { Storage }).says(WRITE)
}

#[test]
fn it_reads_the_data_of_the_primary_endpoint() {
    let server = Server::with_tables(&["cars"]);
    let properties = "-secondary/?restype=service&comp=properties";
    let none = r#"{"value":[{"TableName":"cars"}]}"#;
    check(
        &server,
        [
            post("/cars", r#"{"PartitionKey":"p","RowKey":"r"}"#).answers(201, None),
            get("-secondary/Tables").level("nometadata").ok(200).json(none),
            get("-secondary/cars()").answers(200, None),
            get(ENTITY).answers(200, None),
            get("-secondary/cars?comp=acl").ok(200).xml("<SignedIdentifiers />"),
            get(properties).answers(200, None),
            // The other forms of the path (07 §7, c)
            get("-secondary/devstoreaccount1/Tables").level("nometadata").ok(200).json(none),
        ],
    );
    check(&server, writes().into_iter().map(refused));
    check(&server, [get(ENTITY).answers(200, None), get("/Tables").level("nometadata").ok(200).json(none)]);
}

#[test]
fn switched_off_it_refuses_everything() {
    let server = Server::with(|settings| {
        (settings.secondary, settings.stats_on_primary) = (Secondary::Off, true);
    });
    server.create(&["cars"]);
    let stats = "/?restype=service&comp=stats";
    let disabled = |path: &str| get(path).fails(403, "InsufficientAccountPermissions", FrontEnd).says(READ);
    let reads = ["/Tables", "/cars()", "/cars?comp=acl", "/?restype=service&comp=properties", stats];
    check(&server, reads.map(|path| disabled(&format!("-secondary{path}"))));
    check(&server, [disabled(stats), get("/Tables").answers(200, None)]);
    check(&server, writes().into_iter().map(refused));
}
