//! The policies and settings of a table.

use super::{ENTITY, entity};
use crate::Layer::{FrontEnd, Query, Storage};
use crate::{Case, Server, check, delete, get, post, put, signature};

/// Get and Set Table ACL (02 §4.5, §4.6, 10 §7).
mod policies {
    use super::*;

    #[test]
    fn policies() {
        let policies = "<SignedIdentifiers><SignedIdentifier><Id>pol-1</Id><AccessPolicy><Start>2031-03-01</Start><Expiry>2031-04-01T09:30:15Z</Expiry><Permission>raud</Permission></AccessPolicy></SignedIdentifier><SignedIdentifier><Id>pol-2</Id></SignedIdentifier></SignedIdentifiers>";
        let returned = policies.replace("2031-03-01<", "2031-03-01T00:00:00.0000000Z<").replace(":15Z", ":15.0000000Z");
        check(
            &Server::with_tables(&["cars"]),
            [
                get("/cars?comp=acl").ok(200).xml("<SignedIdentifiers />"),
                put("/cars?comp=acl", policies).ok(204).layer(FrontEnd),
                get("/cars?comp=acl").ok(200).xml(&returned),
                // No format is negotiated, and the name's case does not matter.
                get("/CARS?comp=acl").without("Accept").ok(200).xml(&returned),
                get("/cars()?comp=acl").with("Accept", "application/atom+xml").ok(200).xml(&returned),
                Case::new("HEAD", "/cars?comp=acl", "").ok(200).xml(""),
            ],
        );
    }

    #[test]
    fn a_table_without_policies_and_one_that_does_not_exist() {
        let missing = "The table specified does not exist.";
        let characters = "The specifed resource name contains invalid characters.";
        check(
            &Server::with_tables(&["cars"]),
            [
                get("/other?comp=acl").fails(404, "TableNotFound", FrontEnd).says(missing),
                // Bad and reserved names (01 §2).
                get("/a-b?comp=acl").fails(400, "InvalidResourceName", FrontEnd).says(characters),
                get("/$MetricsHourPrimaryTransactionsTable?comp=acl").fails(404, "TableNotFound", FrontEnd),
                Case::new("POST", "/cars?comp=acl", "").fails(405, "UnsupportedHttpVerb", FrontEnd),
                Case::new("DELETE", "/cars?comp=acl", "").fails(405, "UnsupportedHttpVerb", FrontEnd),
            ],
        );
    }

    const POLICIES: &str = "/cars?comp=acl";

    fn policy(id: &str, more: &str) -> String {
        format!("<SignedIdentifier><Id>{id}</Id>{more}</SignedIdentifier>")
    }

    fn set(policies: &str) -> Case {
        put(POLICIES, &format!("<SignedIdentifiers>{policies}</SignedIdentifiers>"))
    }

    #[test]
    fn the_whole_list_is_replaced() {
        let stored =
            |policies: &str| get(POLICIES).ok(200).xml(&format!("<SignedIdentifiers>{policies}</SignedIdentifiers>"));
        let five: String = (1..=5).map(|number| policy(&number.to_string(), "")).collect();
        let read = policy("b", "<AccessPolicy><Permission>r</Permission></AccessPolicy>");
        check(
            &Server::with_tables(&["cars"]),
            [
                set(&five).ok(204).layer(FrontEnd),
                stored(&five),
                set(&read).with("Content-Type", "application/xml").ok(204).layer(FrontEnd),
                stored(&read),
                // An empty list and an empty body remove all policies, whatever the media type.
                set("").ok(204).layer(FrontEnd),
                get(POLICIES).ok(200).xml("<SignedIdentifiers />"),
                set(&read).ok(204).layer(FrontEnd),
                put(POLICIES, "").without("Content-Type").ok(204).layer(FrontEnd),
                get(POLICIES).ok(200).xml("<SignedIdentifiers />"),
            ],
        );
    }

    #[test]
    fn policies_that_are_refused() {
        let server = Server::with_tables(&["cars"]);
        check(&server, [set(&policy("kept", "")).ok(204).layer(FrontEnd)]);
        let malformed = "XML specified is not syntactically valid.";
        check(&server, [set(&policy("", "")).fails(400, "InvalidXmlDocument", FrontEnd).says(malformed)]);
        let kept = format!("<SignedIdentifiers>{}</SignedIdentifiers>", policy("kept", ""));
        check(&server, [get(POLICIES).ok(200).xml(&kept)]);
        let missing = "The table specified does not exist.";
        check(
            &server,
            [
                put("/other?comp=acl", "").fails(404, "TableNotFound", FrontEnd).says(missing),
                put("/a-b?comp=acl", "").fails(400, "InvalidResourceName", FrontEnd),
                // A body above 1 MiB (10).
                put(POLICIES, &" ".repeat(1024 * 1024 + 1)).fails(413, "RequestBodyTooLarge", FrontEnd),
            ],
        );
    }

    #[test]
    fn policies_take_effect_at_once() {
        // 08 §7: the policy supplies what the signature lacks, and removing it revokes the signature.
        let named = signature("", |fields| (fields.policy, fields.expiry) = ("b".into(), "".into()));
        let query = || get("/cars()").signed(&named);
        let valid = "<AccessPolicy><Expiry>2031-03-15</Expiry><Permission>r</Permission></AccessPolicy>";
        let expired = valid.replace("-15<", "-14<");
        check(
            &Server::with_tables(&["cars"]),
            [
                query().answers(403, "AuthenticationFailed"),
                set(&policy("b", valid)).ok(204).layer(FrontEnd),
                query().answers(200, None),
                set(&policy("b", &expired)).ok(204).layer(FrontEnd),
                query().answers(403, "AuthenticationFailed"),
                set(&policy("B", valid)).ok(204).layer(FrontEnd),
                query().answers(403, "AuthenticationFailed"),
            ],
        );
    }
}

/// Get and Set Table Retention, extensions (`docs/extensions.md`).
mod retention {
    use super::*;

    const BY_PROPERTY: &str = "<TableRetention><Property>Ends</Property><Seconds>30</Seconds></TableRetention>";
    const NONE: &str = "<TableRetention />";
    const RETENTION: &str = "/cars?comp=retention";

    fn server() -> Server {
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
        let server = server();
        check(&server, [put(RETENTION, BY_PROPERTY).ok(204).layer(FrontEnd)]);
        check(&server, [put(RETENTION, "<Other/>").fails(400, "InvalidXmlDocument", FrontEnd)]);
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

    #[test]
    fn the_retention() {
        check(
            &server(),
            [
                get(RETENTION).ok(200).xml(NONE),
                put(RETENTION, BY_PROPERTY).ok(204).layer(FrontEnd),
                // No format is negotiated, and the name's case does not matter.
                get("/CARS?comp=retention").without("Accept").ok(200).xml(BY_PROPERTY),
                get("/cars()?comp=retention").with("Accept", "application/atom+xml").ok(200).xml(BY_PROPERTY),
                Case::new("HEAD", RETENTION, "").ok(200).xml(""),
                get("/other?comp=retention").fails(404, "TableNotFound", FrontEnd),
                get("/a-b?comp=retention").fails(400, "InvalidResourceName", FrontEnd),
                get("/$MetricsHourPrimaryTransactionsTable?comp=retention").fails(404, "TableNotFound", FrontEnd),
                Case::new("POST", RETENTION, "").fails(405, "UnsupportedHttpVerb", FrontEnd),
            ],
        );
    }

    #[test]
    fn without_extensions_there_is_none() {
        check(
            &Server::with_tables(&["cars"]),
            [
                get(RETENTION).fails(400, "InvalidQueryParameterValue", Query),
                put(RETENTION, BY_PROPERTY).fails(400, "InvalidQueryParameterValue", Query),
            ],
        );
    }
}

/// Get and Set Table Indexes, extensions (`docs/extensions.md`).
pub(super) mod indexes {
    use super::*;

    const INDEXES: &str = "/cars?comp=indexes";

    pub(in crate::operations) fn list(properties: &[&str]) -> String {
        let index = |name: &&str| format!("<TableIndex><Property>{name}</Property></TableIndex>");
        format!("<TableIndexes>{}</TableIndexes>", properties.iter().map(index).collect::<String>())
    }

    /// Returns a server with extensions, a table `cars` and a table `bikes`.
    pub(in crate::operations) fn server() -> Server {
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
                get(INDEXES).ok(200).xml("<TableIndexes />"),
                put(INDEXES, &list(&["Doors", "Größe"])).ok(204).layer(FrontEnd),
                get(INDEXES).ok(200).xml(ready),
                get("/CARS()?comp=indexes").without("Accept").ok(200).xml(ready),
                get("-secondary/cars?comp=indexes").ok(200).xml(ready),
                get("/bikes?comp=indexes").ok(200).xml("<TableIndexes />"),
                Case::new("HEAD", INDEXES, "").ok(200).xml(""),
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
                Case::new("DELETE", INDEXES, "").fails(405, "UnsupportedHttpVerb", FrontEnd),
                // A signature is for entities, as for policies.
                get(INDEXES).signed(&read).answers(403, "AuthorizationFailure"),
            ],
        );
    }

    #[test]
    fn without_extensions_there_are_no_indexes() {
        let unknown = |case: Case| case.fails(400, "InvalidQueryParameterValue", Query);
        check(&Server::with_tables(&["cars"]), [unknown(get(INDEXES)), unknown(put(INDEXES, &list(&["Doors"])))]);
    }

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
        let message = "The list of indexes contains a property twice.";
        let malformed = "XML specified is not syntactically valid.";
        check(
            &server,
            [
                set(&["A", "A"]).fails(400, "InvalidInput", FrontEnd).says(message),
                put(INDEXES, "<x/>").fails(400, "InvalidXmlDocument", FrontEnd).says(malformed),
            ],
        );
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
}
