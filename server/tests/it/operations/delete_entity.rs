//! Delete Entity (02 §5.6). `update_entity.rs` tests its conditions.

use super::{ENTITY, entity};
use crate::Layer::{Query, Storage};
use crate::{Server, check, delete, etag, get, post};

#[test]
fn an_entity_is_deleted_if_its_etag_is_right() {
    check(
        &Server::with_tables(&["cars"]),
        [
            post("/cars", &entity("r", "")).answers(201, None),
            post("/cars", &entity("s", "")).answers(201, None),
            // No ETag, and no preference (02 §4.3).
            delete(ENTITY).with("If-Match", etag(0)).with("Prefer", "return-no-content").ok(204),
            get(ENTITY).fails(404, "ResourceNotFound", Storage),
            delete(ENTITY)
                .with("If-Match", etag(0))
                .fails(404, "ResourceNotFound", Storage)
                .says("The specified resource does not exist."),
            post("/cars(PartitionKey='p',RowKey='s')", "")
                .with("X-HTTP-Method", "DELETE")
                .with("If-Match", "*")
                .ok(204),
        ],
    );
}

#[test]
fn what_is_refused() {
    let long = format!("/cars(PartitionKey='p',RowKey='{}')", "k".repeat(513));
    check(
        &Server::with_tables(&["cars"]),
        [
            post("/cars", &entity("r", "")).answers(201, None),
            // `If-Match` is required, even before the table is looked up.
            delete(ENTITY).fails(400, "MissingRequiredHeader", Storage),
            delete("/other(PartitionKey='p',RowKey='r')").fails(400, "MissingRequiredHeader", Storage),
            delete("/other(PartitionKey='p',RowKey='r')").with("If-Match", "*").fails(404, "TableNotFound", Query),
            delete(&long).with("If-Match", "*").fails(404, "ResourceNotFound", Storage),
            delete("/cars(PartitionKey='p')").with("If-Match", "*").fails(400, "InvalidInput", Query),
            // A key that belongs to no resource below a table (02 §1)
            delete("/cars/Tables('x')").fails(400, "InvalidInput", Query).says(
                "The number of keys specified in the URI does not match number of key properties for the resource 'devstoreaccount1.cars'.",
            ),
            get(ENTITY).answers(200, None),
        ],
    );
}
