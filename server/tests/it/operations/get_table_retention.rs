//! Get Table Retention, an extension (`docs/extensions.md`).

use super::set_table_retention::{BY_PROPERTY, NONE, server};
use crate::Layer::{FrontEnd, Query};
use crate::{Case, Server, check, get, put};

#[test]
fn the_retention() {
    check(
        &server(),
        [
            get("/cars?comp=retention").ok(200).xml(NONE),
            put("/cars?comp=retention", BY_PROPERTY).ok(204).layer(FrontEnd),
            // No format is negotiated, and the name's case does not matter.
            get("/CARS?comp=retention").without("Accept").ok(200).xml(BY_PROPERTY),
            get("/cars()?comp=retention").with("Accept", "application/atom+xml").ok(200).xml(BY_PROPERTY),
            Case::new("HEAD", "/cars?comp=retention", "").ok(200).xml(""),
            get("/other?comp=retention").fails(404, "TableNotFound", FrontEnd),
            get("/a-b?comp=retention").fails(400, "InvalidResourceName", FrontEnd),
            get("/$MetricsHourPrimaryTransactionsTable?comp=retention").fails(404, "TableNotFound", FrontEnd),
            Case::new("POST", "/cars?comp=retention", "").fails(405, "UnsupportedHttpVerb", FrontEnd),
        ],
    );
}

#[test]
fn without_extensions_there_is_none() {
    check(
        &Server::with_tables(&["cars"]),
        [
            get("/cars?comp=retention").fails(400, "InvalidQueryParameterValue", Query),
            put("/cars?comp=retention", BY_PROPERTY).fails(400, "InvalidQueryParameterValue", Query),
        ],
    );
}
