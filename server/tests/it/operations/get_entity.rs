//! Get Entity: a query with both keys in the URL (02 §5.7).

use super::{ENTITY, entity};
use crate::Layer::{Query, Storage};
use crate::{Case, Server, check, etag, get, post, timestamp};

fn server() -> Server {
    let server = Server::with_tables(&["cars"]);
    check(&server, [post("/cars", &entity("r", r#","Model":"K","Doors":4"#)).answers(201, None)]);
    server
}

fn found(case: Case) -> Case {
    case.ok(200).header("etag", etag(0))
}

#[test]
fn an_entity_and_its_etag() {
    let (stamp, quoted) = (timestamp(0), etag(0).replace('"', "\\\""));
    let all = format!(r#"{{"PartitionKey":"p","RowKey":"r","Timestamp":"{stamp}","Model":"K","Doors":4}}"#);
    let minimal = all.replacen(
        '{',
        &format!("{{\"odata.metadata\":\"BASE/$metadata#cars/@Element\",\"odata.etag\":\"{quoted}\","),
        1,
    );
    let none = |path: &str| found(get(path).level("nometadata"));
    check(
        &server(),
        [
            found(get(ENTITY)).json(&minimal),
            none(ENTITY).json(&all),
            // The keys in either order, with blanks and a percent-encoded quote (02 §1).
            none("/cars(RowKey='r',%20PartitionKey='p')").json(&all),
            none("/CARS(PartitionKey=%27p%27,RowKey=%27r%27)").json(&all),
            // `$format` replaces `Accept`, and a filter is ignored.
            found(get(&format!("{ENTITY}?$format=application/json;odata=nometadata")))
                .text("application/json;odata=nometadata;streaming=true;charset=utf-8", &all),
            none(&format!("{ENTITY}?$filter=RowKey%20eq%20'x'")).json(&all),
            none(ENTITY).with("If-None-Match", etag(0)).json(&all),
        ],
    );
}

#[test]
fn projections() {
    let quoted = etag(0).replace('"', "\\\"");
    let metadata = |select: &str| format!("\"odata.metadata\":\"BASE/$metadata#cars/@Element&$select={select}\"");
    let none = |select: &str| found(get(&format!("{ENTITY}?$select={select}")).level("nometadata"));
    check(
        &server(),
        [
            // The order of the names, not of the list; unknown names are null (03 §3.5).
            none("Model,Doors").json(r#"{"Doors":4,"Model":"K"}"#),
            none("RowKey,Color,Doors").json(r#"{"RowKey":"r","Doors":4,"Color":null}"#),
            found(get(&format!("{ENTITY}?$select=Model%2CDoors"))).json(&format!(
                "{{{},\"odata.etag\":\"{quoted}\",\"Doors\":4,\"Model\":\"K\"}}",
                metadata("Model,Doors")
            )),
            // An empty list is no projection.
            found(get(&format!("{ENTITY}?$select="))).json(&format!(
                "{{\"odata.metadata\":\"BASE/$metadata#cars/@Element\",\"odata.etag\":\"{quoted}\",\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"Timestamp\":\"{}\",\"Model\":\"K\",\"Doors\":4}}",
                timestamp(0)
            )),
            none("%20Doors,%20RowKey,").json(r#"{"RowKey":"r","Doors":4}"#),
            get(&format!("{ENTITY}?$select=Doors%20Model"))
                .fails(400, "InvalidInput", Query)
                .says("Term 'Doors Model' is not valid in a $select or $expand expression."),
            get(&format!("{ENTITY}?$select=Doors")).atom().version("2009-09-19").answers(400, "InvalidInput"),
        ],
    );
}

#[test]
fn what_is_missing_or_malformed() {
    let missing = "The specified resource does not exist.";
    let syntax = "Bad Request - Error in query syntax.";
    let long = "k".repeat(513);
    check(
        &server(),
        [
            get("/cars(PartitionKey='p',RowKey='R')").fails(404, "ResourceNotFound", Storage).says(missing),
            get(&format!("/cars(PartitionKey='p',RowKey='{long}')")).fails(404, "ResourceNotFound", Storage),
            get("/other(PartitionKey='p',RowKey='r')").fails(404, "TableNotFound", Query),
            get("/cars(PartitionKey='p',RowKey='a%2Fb')").fails(400, "InvalidInput", Query).says(syntax),
            get("/cars(PartitionKey='p',RowKey='a%23b')")
                .fails(400, "OutOfRangeInput", Query)
                .says("One of the request inputs is out of range."),
            get("/cars(PartitionKey='p',RowKey='a'b')")
                .fails(400, "InvalidInput", Query)
                .says("There is an unterminated string literal at position 29 in 'PartitionKey='p',RowKey='a'b''."),
            get("/cars(PartitionKey='p',RowKey='r').").fails(400, "InvalidInput", Query).says(syntax),
            get("/cars(RowKey='r')").fails(400, "InvalidInput", Query).says(
                "The number of keys specified in the URI does not match number of key properties for the resource 'devstoreaccount1.cars'.",
            ),
            get("/other('r')").fails(404, "TableNotFound", Query),
            get(&format!("{ENTITY}?$expand=x")).fails(501, "NotImplemented", Storage),
            get(&format!("{ENTITY}?comp=nonsense")).fails(400, "InvalidQueryParameterValue", Query),
            // A table in front of another resource (02 §1)
            get("/cars/Tables").fails(501, "NotImplemented", Storage),
            get("/other/Tables").fails(404, "TableNotFound", Query),
            get("/cars/other(PartitionKey='p',RowKey='r')").fails(501, "NotImplemented", Storage),
            get("/cars/cars(PartitionKey='p',RowKey='r')").fails(501, "NotImplemented", Storage),
            get("/other/cars(PartitionKey='p',RowKey='r')").fails(404, "TableNotFound", Query),
            get("/cars/other(PartitionKey='p')").fails(400, "InvalidInput", Query).says(syntax),
        ],
    );
}
