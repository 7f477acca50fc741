//! Get Table Indexes, an extension (`docs/extensions.md`).

use crate::Layer::{FrontEnd, Query};
use crate::{Case, Server, check, get, put, signature};

pub(super) fn list(properties: &[&str]) -> String {
    let index = |name: &&str| format!("<TableIndex><Property>{name}</Property></TableIndex>");
    format!("<TableIndexes>{}</TableIndexes>", properties.iter().map(index).collect::<String>())
}

/// Returns a server with extensions, a table `cars` and a table `bikes`.
pub(super) fn server() -> Server {
    let server = Server::with(|settings| settings.extensions = true);
    server.create(&["cars", "bikes"]);
    server
}

#[test]
fn indexes() {
    let ready = "<TableIndexes><TableIndex><Property>Doors</Property><State>ready</State></TableIndex><TableIndex><Property>Größe</Property><State>ready</State></TableIndex></TableIndexes>";
    check(
        &server(),
        [
            get("/cars?comp=indexes").ok(200).xml("<TableIndexes />"),
            put("/cars?comp=indexes", &list(&["Doors", "Größe"])).ok(204).layer(FrontEnd),
            get("/cars?comp=indexes").ok(200).xml(ready),
            get("/CARS()?comp=indexes").without("Accept").ok(200).xml(ready),
            get("-secondary/cars?comp=indexes").ok(200).xml(ready),
            get("/bikes?comp=indexes").ok(200).xml("<TableIndexes />"),
            Case::new("HEAD", "/cars?comp=indexes", "").ok(200).xml(""),
        ],
    );
}

#[test]
fn what_is_refused() {
    let read = signature("raud", |_| {});
    check(
        &server(),
        [
            get("/other?comp=indexes").fails(404, "TableNotFound", FrontEnd),
            get("/a-b?comp=indexes").fails(400, "InvalidResourceName", FrontEnd),
            get("/$MetricsHourPrimaryTransactionsTable?comp=indexes").fails(404, "TableNotFound", FrontEnd),
            Case::new("DELETE", "/cars?comp=indexes", "").fails(405, "UnsupportedHttpVerb", FrontEnd),
            // A signature is for entities, as for policies.
            get("/cars?comp=indexes").signed(&read).answers(403, "AuthorizationFailure"),
        ],
    );
}

#[test]
fn without_extensions_there_are_no_indexes() {
    let unknown = |case: Case| case.fails(400, "InvalidQueryParameterValue", Query);
    check(
        &Server::with_tables(&["cars"]),
        [unknown(get("/cars?comp=indexes")), unknown(put("/cars?comp=indexes", &list(&["Doors"])))],
    );
}
