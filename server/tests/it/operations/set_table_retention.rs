//! Set Table Retention, an extension (`docs/extensions.md`).

use super::{ENTITY, entity};
use crate::Layer::{FrontEnd, Storage};
use crate::{Case, Server, check, get, post, put, signature};

pub(super) const BY_PROPERTY: &str = "<TableRetention><Property>Ends</Property><Seconds>30</Seconds></TableRetention>";
pub(super) const NONE: &str = "<TableRetention />";
const RETENTION: &str = "/cars?comp=retention";

pub(super) fn server() -> Server {
    let server = Server::with(|settings| settings.extensions = true);
    server.create(&["cars"]);
    server
}

fn ending(row: &str, ends: &str) -> String {
    entity(row, &format!(",\"Ends\":\"{ends}\",\"Ends@odata.type\":\"Edm.DateTime\""))
}

#[test]
fn it_replaces_the_retention() {
    let by_age = "<TableRetention><Seconds>3600</Seconds></TableRetention>";
    let set = |body: &str| put(RETENTION, body).ok(204).layer(FrontEnd);
    check(
        &server(),
        [
            set(BY_PROPERTY),
            set(by_age).with("Content-Type", "application/xml"),
            get(RETENTION).ok(200).xml(by_age),
            set(NONE),
            get(RETENTION).ok(200).xml(NONE),
        ],
    );
}

#[test]
fn an_expired_entity_does_not_exist() {
    let text = "text/plain;charset=utf-8";
    let gone = || get(ENTITY).fails(404, "ResourceNotFound", Storage);
    let server = server();
    check(
        &server,
        [
            post("/cars", &ending("r", "2001-01-01T00:00:00Z")).answers(201, None),
            post("/cars", &ending("s", "2999-01-01T00:00:00Z")).answers(201, None),
            get(ENTITY).answers(200, None),
            put(RETENTION, BY_PROPERTY).ok(204).layer(FrontEnd),
            gone(),
            get("/cars/$count").ok(200).text(text, "1"),
            Case::new("DELETE", ENTITY, "").with("If-Match", "*").answers(404, "ResourceNotFound"),
            put(ENTITY, "{}").with("If-Match", "*").answers(404, "ResourceNotFound"),
            // An insert succeeds as if there were no entity.
            post("/cars", &entity("r", ",\"A\":1")).answers(201, None),
            get(ENTITY).answers(200, None),
            post("/cars", &entity("r", ",\"A\":1")).answers(409, "EntityAlreadyExists"),
            get("/cars/$count").ok(200).text(text, "2"),
        ],
    );
}

#[test]
fn what_is_refused() {
    let of = |content: &str| format!("<TableRetention>{content}</TableRetention>");
    let refused = [
        String::new(),
        "<Other/>".to_owned(),
        of("<Seconds>0</Seconds>"),
        of("<Seconds>x</Seconds>"),
        of("<Property>Ends</Property>"),
        of("<Property>a b</Property><Seconds>1</Seconds>"),
        of("<Property>Timestamp</Property><Seconds>1</Seconds>"),
    ];
    let server = server();
    check(&server, [put(RETENTION, BY_PROPERTY).ok(204).layer(FrontEnd)]);
    check(&server, refused.map(|body| put(RETENTION, &body).fails(400, "InvalidXmlDocument", FrontEnd)));
    let all = signature("raud", |_| {});
    check(
        &server,
        [
            get(RETENTION).ok(200).xml(BY_PROPERTY),
            put("/other?comp=retention", NONE).fails(404, "TableNotFound", FrontEnd),
            put("/a-b?comp=retention", NONE).fails(400, "InvalidResourceName", FrontEnd),
            put("/$MetricsHourPrimaryTransactionsTable?comp=retention", NONE).fails(404, "TableNotFound", FrontEnd),
            // Like the stored access policies, it needs the account key.
            put(RETENTION, NONE).signed(&all).answers(403, "AuthorizationFailure"),
            get(RETENTION).signed(&all).answers(403, "AuthorizationFailure"),
        ],
    );
}
