//! Query Entities (04). The rules of filters are tested in `wire` and `model`; these cases show that requests get
//! there.

use super::entity;
use crate::Layer::{Query, Storage};
use crate::{Case, Server, check, etag, get, post, timestamp};

fn server() -> Server {
    filled(Server::with_tables(&["cars"]))
}

fn server_with_extensions() -> Server {
    let server = Server::with(|settings| settings.extensions = true);
    server.create(&["cars"]);
    filled(server)
}

/// Inserts the six entities of 04 §8, and one in another partition.
fn filled(server: Server) -> Server {
    let typed = r#","A@odata.type":"Edm.Int64","A":"3""#;
    let values = [r#","A":3"#, r#","A":"3""#, "", typed, r#","A":2.5"#, r#","A":true"#];
    let inserts =
        (1..).zip(values).map(|(row, value)| post("/cars", &entity(&row.to_string(), value)).answers(201, None));
    check(&server, inserts);
    check(&server, [post("/cars", r#"{"PartitionKey":"q","RowKey":"1","A":9}"#).answers(201, None)]);
    server
}

/// Expects the entities with the given partition and row keys, of which only the row key is selected.
fn finds(options: &str, rows: &[&str]) -> Case {
    let rows: Vec<_> = rows.iter().map(|row| format!("{{\"RowKey\":\"{row}\"}}")).collect();
    let json = format!("{{\"value\":[{}]}}", rows.join(","));
    get(&format!("/cars()?$select=RowKey{options}")).level("nometadata").ok(200).json(&json)
}

#[test]
fn the_three_levels() {
    let quoted = etag(0).replace('"', "\\\"");
    let (keys, stamp) = (r#""PartitionKey":"p","RowKey":"1""#, timestamp(0));
    let set = r#""odata.metadata":"BASE/$metadata#cars","value""#;
    let one = |level| get("/cars?$top=1&$filter=A%20eq%203%20and%20RowKey%20eq%20'1'").level(level).ok(200);
    check(
        &server(),
        [
            one("minimalmetadata")
                .json(&format!(r#"{{{set}:[{{"odata.etag":"{quoted}",{keys},"Timestamp":"{stamp}","A":3}}]}}"#)),
            one("nometadata").json(&format!(r#"{{"value":[{{{keys},"Timestamp":"{stamp}","A":3}}]}}"#)),
            one("fullmetadata").json(&format!(
                r#"{{{set}:[{{"odata.type":"devstoreaccount1.cars","odata.id":"BASE/cars(PartitionKey='p',RowKey='1')","odata.etag":"{quoted}","odata.editLink":"cars(PartitionKey='p',RowKey='1')",{keys},"Timestamp@odata.type":"Edm.DateTime","Timestamp":"{stamp}","A":3}}]}}"#
            )),
            get("/cars()?$filter=RowKey%20eq%20'x'").ok(200).json(&format!("{{{set}:[]}}")),
            // The empty projection appears in the metadata (03 §3.5).
            get("/cars()?$filter=RowKey%20eq%20'x'&$select=")
                .ok(200)
                .json(r#"{"odata.metadata":"BASE/$metadata#cars&$select=","value":[]}"#),
            get("/cars()?$filter=A%20eq%203%20and%20RowKey%20eq%20'1'&$select=A,%20B").ok(200).json(&format!(
                r#"{{"odata.metadata":"BASE/$metadata#cars&$select=A,%20B","value":[{{"odata.etag":"{quoted}","A":3,"B":null}}]}}"#
            )),
        ],
    );
}

#[test]
fn a_feed() {
    // 03 §5.4
    let start = r#"<?xml version="1.0" encoding="utf-8"?><feed xml:base="BASE/" xmlns="http://www.w3.org/2005/Atom" xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"><id>BASE/cars</id><title type="text">cars</title><updated>2031-03-14T08:15:30Z</updated>"#;
    let entry = format!(
        r#"<link rel="self" title="cars" href="cars" /><entry m:etag="{}"><id>BASE/cars(PartitionKey='q',RowKey='1')</id><category term="devstoreaccount1.cars" scheme="http://schemas.microsoft.com/ado/2007/08/dataservices/scheme" /><link rel="edit" title="cars" href="cars(PartitionKey='q',RowKey='1')" /><title /><updated>2031-03-14T08:15:30Z</updated><author><name /></author><content type="application/xml"><m:properties><d:A m:type="Edm.Int32">9</d:A></m:properties></content></entry></feed>"#,
        etag(6).replace('"', "&quot;")
    );
    let query = |options: &str| get(&format!("/cars()?$select=A&{options}")).atom();
    let content_type = "application/atom+xml;type=feed;charset=utf-8";
    let found = query("$filter=PartitionKey%20eq%20'q'").ok(200).text(content_type, &format!("{start}{entry}"));
    check(&server(), [found, query("$filter=x%20eq").fails(400, "InvalidInput", Query).in_xml()]);
}

#[test]
fn filters_and_key_ranges() {
    check(
        &server(),
        [
            finds("", &["1", "2", "3", "4", "5", "6", "1"]),
            finds("&$filter=A%20eq%203", &["1", "4"]),
            finds("&$filter=PartitionKey+eq+'p'+and+RowKey+ge+'5'", &["5", "6"]),
            finds("&%24filter=RowKey%20eq%20'1'%20and%20PartitionKey%20eq%20'p'", &["1"]),
            finds("&$filter=PartitionKey%20gt%20'p'", &["1"]),
            finds("&$filter=Timestamp%20lt%20datetime'2031-03-14T00:00Z'", &[]),
            finds("&$filter=", &["1", "2", "3", "4", "5", "6", "1"]),
            // A partition in the URL (02 §1)
            get("/cars(PartitionKey='q')?$select=A").level("nometadata").ok(200).json(r#"{"value":[{"A":9}]}"#),
        ],
    );
}

/// An extension (`docs/extensions.md`).
#[test]
fn string_functions() {
    let refused = |filter: &str| get(&format!("/cars()?$filter={filter}"));
    check(
        &server_with_extensions(),
        [
            finds("&$filter=startswith(A,'3')", &["2"]),
            finds("&$filter=startswith(PartitionKey,'p')%20and%20endswith(RowKey,'5')", &["5"]),
            refused("contains(A,3)").fails(400, "InvalidInput", Query),
            refused("contains(A,B)").fails(501, "NotImplemented", Storage),
            refused("length(A)%20eq%201").fails(501, "NotImplemented", Storage),
        ],
    );
}

#[test]
fn without_extensions_there_are_no_functions() {
    let query = |filter: &str| get(&format!("/other()?$filter={filter}"));
    let refused = |filter: &str| query(filter).fails(501, "NotImplemented", Storage);
    check(
        &server(),
        [
            refused("startswith(A,'3')"),
            query("A%20eq%20null%20and%20contains(A,'3')").fails(400, "InvalidInput", Query),
        ],
    );
}

#[test]
fn pages_and_tokens() {
    let next = |case: Case, partition: &str, row: &str| {
        case.header("x-ms-continuation-nextpartitionkey", partition).header("x-ms-continuation-nextrowkey", row)
    };
    let (p, q) = ("1!4!cA--", "1!4!cQ--");
    check(
        &server(),
        [
            next(finds("&$top=2", &["1", "2"]), p, "1!4!Mw--"),
            finds(&format!("&NextPartitionKey={p}&NextRowKey=1!4!Mw--"), &["3", "4", "5", "6", "1"]),
            next(finds(&format!("&$top=1&NextPartitionKey={p}&NextRowKey=1%214%21Ng--"), &["6"]), q, "1!4!MQ--"),
            // From the beginning of a partition, and a key in place of a token (04 §6).
            finds(&format!("&NextPartitionKey={q}"), &["1"]),
            finds("&NextPartitionKey=p&NextRowKey=6", &["6", "1"]),
            // A page that is exactly full, and the look-ahead to the next match (04 §5).
            finds("&$top=7", &["1", "2", "3", "4", "5", "6", "1"]),
            finds("&$top=2&$filter=A%20eq%203", &["1", "4"]),
            next(finds("&$top=1&$filter=A%20eq%203", &["1"]), p, "1!4!NA--"),
            finds("&$top=0", &[]),
        ],
    );
}

#[test]
fn a_page_has_at_most_a_thousand_entities() {
    let server = Server::with_tables(&["cars"]);
    let mut client = server.client();
    for number in 0..11 {
        test_support::content::fill_partition(&mut client, "cars", number, 100);
    }
    let page = client.request("GET", "/cars()?$select=RowKey", &[], b"");
    assert_eq!(page.json()["value"].as_array().unwrap().len(), 1000);
    assert!(page.header("x-ms-continuation-nextpartitionkey").is_some());
}

#[test]
fn a_query_that_takes_too_long_ends_with_a_token() {
    let server = Server::with(|settings| settings.query_time = std::time::Duration::ZERO);
    server.create(&["cars"]);
    check(&server, ["1", "2"].map(|row| post("/cars", &entity(row, "")).answers(201, None)));
    let page = finds("&$filter=RowKey%20eq%20'2'", &[]).header("x-ms-continuation-nextpartitionkey", "1!4!cA--");
    check(&server, [page.header("x-ms-continuation-nextrowkey", "1!4!Mg--")]);
}

#[test]
fn options_that_are_refused() {
    let generic = "One of the request inputs is not valid.";
    let query = |options: &str| get(&format!("/cars()?{options}"));
    let not_implemented = "The requested operation is not implemented on the specified resource.";
    let term = |list: &str| format!("Term '{list}' is not valid in a $select or $expand expression.");
    let select = (0..256).map(|number| format!("N{number}")).collect::<Vec<_>>().join(",");
    check(
        &server(),
        [
            // `$top` before the filter, and the filter before the table (04 §7).
            query("$top=-1&$filter=x%20y%20z").fails(400, "InvalidInput", Storage).says(generic),
            query("$top=1001").fails(400, "InvalidInput", Storage).says(generic).because("top-invalid"),
            query("$top=x").fails(400, "InvalidInput", Storage),
            query("$filter=aaa%20bbb%20ccc")
                .fails(400, "InvalidInput", Query)
                .says("Syntax error at position 7 in 'aaa bbb ccc'.")
                .because("filter-syntax: An operator (eq, ne, gt, ge, lt, le, and, or)"),
            query("$filter=startswith(x,'a')")
                .fails(501, "NotImplemented", Storage)
                .says(not_implemented)
                .because("filter-unsupported: The service has no function startswith"),
            query("$orderby=x")
                .fails(501, "NotImplemented", Storage)
                .says(not_implemented)
                .because("option-unsupported: The service does not support $orderby."),
            query("$skip=1").fails(501, "NotImplemented", Storage),
            query("$top=1&$top=2").fails(400, "InvalidInput", Query).because("option-repeated: The query option $top"),
            query(&format!("$select={select}"))
                .fails(400, "InvalidInput", Query)
                .because("select-invalid: The list has"),
            // A malformed list is refused after the filter, and before the token and the table.
            query("$select=PartitionKey%20Row+Active&NextPartitionKey=1!4!x")
                .fails(400, "InvalidInput", Query)
                .says(term("PartitionKey Row Active")),
            query("$select=A/B").atom().fails(400, "InvalidInput", Query).says(term("A/B")).in_xml(),
            query("$select=odata.etag")
                .level("fullmetadata")
                .fails(400, "InvalidInput", Query)
                .says(term("odata.etag")),
            query("$select=%27A%27")
                .fails(400, "InvalidInput", Query)
                .says("An identifier was expected at position 0."),
            query("$select=A%20B&$filter=aaa%20bbb%20ccc")
                .fails(400, "InvalidInput", Query)
                .says("Syntax error at position 7 in 'aaa bbb ccc'."),
            get("/other()?$select=A%20B").fails(400, "InvalidInput", Query).says(term("A B")),
            query("NextRowKey=1!4!cA--").fails(400, "InvalidInput", Query),
            query("NextPartitionKey=1!4!cA--&NextRowKey=").fails(400, "InvalidInput", Query).says(generic),
            query("NextPartitionKey=1!4!x").fails(400, "InvalidInput", Query).because("continuation-invalid"),
            query("NextPartitionKey=1!4!cA--&nextpartitionkey=1!4!cQ--").fails(400, "InvalidInput", Query),
            get("/other()").fails(404, "TableNotFound", Query).says("The table specified does not exist."),
            get("/other()?$filter=x%20eq").fails(400, "InvalidInput", Query),
            get("/a-b()").fails(400, "InvalidResourceName", Query),
            get("/ab()").fails(400, "OutOfRangeInput", Query).because("table-name: The length of the name is 2"),
            // The letter case of options is ignored, and options that are no options are (04 §1).
            finds("&nextpartitionkey=1!4!cQ--", &["1"]),
            finds("&$FILTER=A%20eq%209&$Top=1", &["1"]),
            finds("&color=red&$search=x&$filter=A%20eq%209", &["1"]),
        ],
    );
}
