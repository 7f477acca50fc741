//! Queries of ordered views, an extension (`docs/extensions.md`): a table in the order of the values of a property.

use super::table_settings::indexes::{list, server};
use crate::Layer::{FrontEnd, Query, Storage};
use crate::{Case, Server, check, delete, get, merge, post, put, signature};
use engine::KeepChanges;
use model::Dialect;
use serde_json::Value;
use std::time::Duration;
use test_support::Response;
use wire::continuation::encode_in_list;

const UP: &str = "/$ByTotalOfcars";
const DOWN: &str = "/$ByTotalDescendingOfcars";

/// Returns a server with an index, and entities of three partitions. `c1` has no value.
fn shop() -> Server {
    let server = server();
    index(&server, "cars", &["Total"]);
    for (key, total) in [
        ("a1", "5"),
        ("a2", "-3"),
        ("a3", "5.5"),
        ("b1", "\"x\""),
        ("b2", "\"7000000000\",\"Total@odata.type\":\"Edm.Int64\""),
        ("b3", "5"),
        ("c1", ""),
    ] {
        insert(&server, "cars", key, "Total", total);
    }
    server
}

fn index(server: &Server, table: &str, properties: &[&str]) {
    check(server, [put(&format!("/{table}?comp=indexes"), &list(properties)).answers(204, None)]);
}

/// The first character of the key is the partition key.
fn insert(server: &Server, table: &str, key: &str, property: &str, value: &str) {
    let value = if value.is_empty() { String::new() } else { format!(",\"{property}\":{value}") };
    let body = format!("{{\"PartitionKey\":\"{}\",\"RowKey\":\"{}\",\"N\":1{value}}}", &key[..1], &key[1..]);
    check(server, [post(&format!("/{table}"), &body).answers(201, None)]);
}

fn keys_in(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    let key = |entity: &Value| format!("{}{}", entity["PartitionKey"].as_str()?, entity["RowKey"].as_str()?).into();
    let entities = response.json()["value"].as_array().unwrap().clone();
    entities.iter().map(|entity| Option::<String>::unwrap(key(entity))).collect()
}

fn tokens(response: &Response) -> Option<String> {
    let partition = response.header("x-ms-continuation-nextpartitionkey")?;
    Some(format!("NextPartitionKey={partition}&NextRowKey={}", response.header("x-ms-continuation-nextrowkey")?))
}

/// Returns the query of the next page, if there is one.
fn next(path: &str, response: &Response) -> Option<String> {
    let separator = if path.contains('?') { '&' } else { '?' };
    Some(format!("{path}{separator}{}", tokens(response)?))
}

/// Reads all pages, each with the given number of entities except the last. Returns the keys, separated by spaces.
fn pages(server: &Server, path: &str, top: usize, change: impl Fn(Case) -> Case) -> String {
    let path = format!("{path}{}$top={top}", if path.contains('?') { '&' } else { '?' });
    let (mut keys, mut url) = (Vec::new(), Some(path.clone()));
    while let Some(current) = url {
        let response = change(get(&current)).send(&mut server.client());
        let page = keys_in(&response);
        url = next(&path, &response);
        assert!(page.len() == top || url.is_none(), "{page:?}");
        keys.extend(page);
    }
    keys.join(" ")
}

#[test]
fn every_page_size_gives_the_same_order() {
    let server = shop();
    for top in [1, 2, 3, 1000] {
        let list = |path: &str| pages(&server, path, top, |case| case);
        // Numbers of all types are ordered by value, and equal values by key. Strings follow.
        assert_eq!(list(UP), "a2 a1 b3 a3 b2 b1");
        assert_eq!(list("/$ByTotalOfCARS()"), "a2 a1 b3 a3 b2 b1");
        assert_eq!(list("-secondary/$ByTotalOfcars"), "a2 a1 b3 a3 b2 b1");
        assert_eq!(list("/%24ByTotalOfcars"), "a2 a1 b3 a3 b2 b1");
        assert_eq!(list(DOWN), "b1 b2 a3 b3 a1 a2");
        for (filter, up) in [
            ("Total%20ge%205", "a1 b3"),
            ("Total%20gt%205%20and%20Total%20lt%206", ""),
            ("Total%20ge%205.0", "a1 b3 a3 b2"),
            ("PartitionKey%20eq%20'b'", "b3 b2 b1"),
            ("PartitionKey%20eq%20'b'%20or%20RowKey%20eq%20'1'", "a1 b3 b2 b1"),
            ("Total%20eq%20'x'", "b1"),
            ("contains(RowKey,'3')", "b3 a3"),
            ("N%20eq%202", ""),
        ] {
            let down = up.split(' ').rev().collect::<Vec<_>>().join(" ");
            if filter.starts_with("Total%20g") {
                // How literals of one type compare with values of other types is tested elsewhere. Both orders select
                // the same entities as the table.
                let mut expected: Vec<_> =
                    list(&format!("/cars?$filter={filter}")).split(' ').map(String::from).collect();
                let mut found: Vec<_> = list(&format!("{UP}?$filter={filter}")).split(' ').map(String::from).collect();
                let reversed: Vec<_> = found.iter().rev().cloned().collect();
                assert_eq!(list(&format!("{DOWN}?$filter={filter}")), reversed.join(" "), "{filter}");
                expected.sort();
                found.sort();
                assert_eq!(found, expected, "{filter}");
                continue;
            }
            assert_eq!(list(&format!("{UP}?$filter={filter}")), up, "{filter}");
            assert_eq!(list(&format!("{DOWN}?$filter={filter}")), down, "{filter}");
        }
        assert_eq!(list(&format!("{UP}(PartitionKey='b')")), "b3 b2 b1");
    }
}

#[test]
fn entities_look_as_in_the_table_in_both_formats() {
    let server = shop();
    let first = "?$top=1&$filter=PartitionKey%20eq%20'a'";
    let mut bodies = Vec::new();
    for change in
        [|case: Case| case.level("nometadata"), |case: Case| case.level("fullmetadata"), |case: Case| case.atom()]
    {
        let body = |path: &str| {
            let response = change(get(path)).send(&mut server.client());
            assert_eq!(response.status, 200, "{path}");
            String::from_utf8(response.body).unwrap()
        };
        let table = body("/cars?$filter=PartitionKey%20eq%20'a'%20and%20RowKey%20eq%20'2'");
        // The entities have the addresses that they have in the table, so clients can change them.
        assert_eq!(body(&format!("{UP}{first}")), table);
        bodies.push(table);
    }
    assert!(bodies[1].contains("/cars(PartitionKey='a',RowKey='2')"), "{}", bodies[1]);
    let select = format!("{UP}?$select=RowKey&$top=2&$filter=RowKey%20ne%20'2'");
    check(
        &server,
        [get(&select).level("nometadata").answers(200, None), get(&format!("{UP}/$count")).answers(200, None)],
    );
    let selected = get(&select).level("nometadata").send(&mut server.client());
    assert_eq!(selected.json(), serde_json::json!({ "value": [{ "RowKey": "1" }, { "RowKey": "3" }] }));
}

#[test]
fn entities_that_change_between_pages() {
    let server = shop();
    let page = |path: &str| get(path).send(&mut server.client());
    let first = page(&format!("{UP}?$top=2"));
    assert_eq!(keys_in(&first), ["a2", "a1"]);
    let second = next(&format!("{UP}?$top=2"), &first).unwrap();
    // The entity at which the next page begins disappears, another moves there, and one moves before the position.
    check(
        &server,
        [
            delete("/cars(PartitionKey='b',RowKey='3')").with("If-Match", "*").answers(204, None),
            merge("/cars(PartitionKey='b',RowKey='1')", r#"{"Total":5.25}"#).answers(204, None),
            merge("/cars(PartitionKey='b',RowKey='2')", r#"{"Total":-10}"#).answers(204, None),
        ],
    );
    let response = page(&second);
    assert_eq!(keys_in(&response), ["b1", "a3"]);
    assert_eq!(next(&second, &response), None);
    // Without the property, an entity leaves the view.
    check(
        &server,
        [put("/cars(PartitionKey='b',RowKey='1')", r#"{"Other":1}"#).with("If-Match", "*").answers(204, None)],
    );
    assert_eq!(keys_in(&page(DOWN)), ["a3", "a1", "a2", "b2"]);
}

#[test]
fn a_signature_for_the_table_covers_its_views() {
    let server = shop();
    index(&server, "bikes", &["Total"]);
    let signed = |path: &str, signature: String| {
        let response = get(path).signed(&signature).send(&mut server.client());
        response.header("x-ms-error-code").map_or_else(|| keys_in(&response).join(" "), ToOwned::to_owned)
    };
    let read = || signature("r", |_| {});
    let range = || {
        signature("r", |fields| {
            (fields.start_partition, fields.start_row) = ("a".into(), "3".into());
            (fields.end_partition, fields.end_row) = ("b".into(), "2".into());
        })
    };
    assert_eq!(signed(UP, read()), "a2 a1 b3 a3 b2 b1");
    assert_eq!(signed(UP, range()), "a3 b2 b1");
    assert_eq!(signed(DOWN, range()), "b1 b2 a3");
    assert_eq!(pages(&server, UP, 1, |case| case.signed(&range())), "a3 b2 b1");
    // A token does not extend the range.
    let unrestricted = get(&format!("{UP}?$top=1")).send(&mut server.client());
    assert_eq!(signed(&next(UP, &unrestricted).unwrap(), range()), "a3 b2 b1");
    assert_eq!(signed(&format!("{UP}?$filter=PartitionKey%20eq%20'a'"), range()), "a3");
    // The entities are the same as without a range, although they are not found in the index.
    let filter = format!("{UP}?$filter=PartitionKey%20eq%20'b'%20and%20RowKey%20le%20'2'");
    let body = |case: Case| String::from_utf8(case.level("fullmetadata").send(&mut server.client()).body).unwrap();
    assert_eq!(body(get(&filter).signed(&range())), body(get(&filter)));
    assert_eq!(signed(UP, signature("aud", |_| {})), "AuthorizationPermissionMismatch");
    assert_eq!(signed("/$ByTotalOfbikes", read()), "AuthorizationFailure");
    assert_eq!(signed(UP, signature("r", |fields| fields.table = "bikes".into())), "AuthorizationFailure");
    assert_eq!(signed(UP, signature("r", |fields| fields.table = "$bytotalofcars".into())), "AuthorizationFailure");
}

#[test]
fn a_key_range_with_too_many_entities_for_the_time_of_a_query_is_an_error() {
    let server = Server::with(|settings| {
        settings.extensions = true;
        settings.query_time = Duration::ZERO;
    });
    server.create(&["cars"]);
    index(&server, "cars", &["Total"]);
    for (key, total) in [("a1", "3"), ("a2", "2"), ("b1", "1")] {
        insert(&server, "cars", key, "Total", total);
    }
    let range = |partition: &'static str| {
        signature("r", |fields| {
            (fields.start_partition, fields.end_partition) = (partition.into(), partition.into());
        })
    };
    let message = "The key range of the credential has too many entities to be put in the order of a property within \
                   the time of a query. Restrict PartitionKey or RowKey in $filter, or query the table in the order of its keys.";
    let too_many = |case: Case| case.signed(&range("a")).fails(500, "OperationTimedOut", Storage).says(message);
    check(
        &server,
        [
            too_many(get(UP)),
            too_many(get(DOWN)),
            get(&format!("{UP}?$filter=RowKey%20eq%20'2'%20and%20PartitionKey%20eq%20'a'"))
                .signed(&range("a"))
                .answers(200, None),
            get(UP).signed(&range("b")).answers(200, None),
        ],
    );
    let count = get(&format!("{UP}/$count")).signed(&range("a")).send(&mut server.client());
    let rest = get(&next(&format!("{UP}/$count"), &count).unwrap()).signed(&range("a")).send(&mut server.client());
    assert_eq!((&count.body[..], &rest.body[..], tokens(&rest)), (&b"1"[..], &b"1"[..], None));
    server.assert_unharmed();
}

#[test]
fn the_meaning_of_a_name_depends_on_tables_and_indexes() {
    let server = server();
    server.create(&["birthOfcars"]);
    for table in ["cars", "birthOfcars"] {
        insert(&server, table, "k1", "Date", "2");
        insert(&server, table, "k2", "Date", "1");
        insert(&server, table, "k3", "DateOfbirth", "4");
        insert(&server, table, "k4", "DateOfbirth", "3");
        insert(&server, table, "k5", "DateDescending", "6");
        insert(&server, table, "k6", "DateDescending", "5");
    }
    let keys = |path: &str| keys_in(&get(path).send(&mut server.client())).join(" ");
    let name = "/$ByDateOfbirthOfcars";
    let missing = "The table has no index of the property, so entities cannot be listed in its order.";
    check(&server, [get(name).fails(404, "ResourceNotFound", Query).says(missing)]);
    index(&server, "birthOfcars", &["Date"]);
    assert_eq!(keys(name), "k2 k1");
    index(&server, "cars", &["DateOfbirth"]);
    assert_eq!(keys(name), "k4 k3");
    // With a signature for one of the tables, the name means a view of this table.
    let signed = |table: &'static str| {
        let signature = signature("r", |fields| fields.table = table.into());
        keys_in(&get(name).signed(&signature).send(&mut server.client())).join(" ")
    };
    assert_eq!((signed("cars"), signed("birthofcars")), ("k4 k3".to_owned(), "k2 k1".to_owned()));
    index(&server, "cars", &["DateDescending"]);
    assert_eq!(keys("/$ByDateDescendingOfcars"), "k6 k5");
    assert_eq!(keys("/$ByDateDescendingDescendingOfcars"), "k5 k6");
    index(&server, "cars", &["DateDescending", "Date"]);
    assert_eq!(keys("/$ByDateDescendingOfcars"), "k1 k2");
}

#[test]
fn what_is_refused() {
    let server = shop();
    let entity = format!("{UP}(PartitionKey='a',RowKey='1')");
    let missing = "The table has no index of the property, so entities cannot be listed in its order.";
    let refused = |case: Case| case.fails(403, "AuthorizationFailure", Storage);
    check(
        &server,
        [
            get("/$ByOtherOfcars").fails(404, "ResourceNotFound", Query).says(missing),
            get("/$BytotalOfcars").fails(404, "ResourceNotFound", Query).says(missing),
            get("/$ByTotalOfother").fails(404, "TableNotFound", Query),
            get("/$ByTotalOfother/$count").fails(404, "TableNotFound", Query),
            get("/$ByTotalOfc-s").fails(400, "InvalidResourceName", Query),
            get("/$bytotalofcars").fails(400, "InvalidResourceName", Query),
            get("/$ByTimestampOfcars").fails(400, "InvalidResourceName", Query),
            get(&format!("{UP}?$filter=A%20eq")).fails(400, "InvalidInput", Query),
            get(&format!("{UP}?NextPartitionKey=a&NextRowKey=b")).fails(400, "InvalidInput", Query),
            get(&format!("{UP}?NextPartitionKey=1!5!cGs-")).fails(400, "InvalidInput", Query),
            // Everything except queries
            refused(get(&entity)),
            refused(post(UP, r#"{"PartitionKey":"a","RowKey":"9"}"#)),
            refused(put(&entity, "{}")),
            refused(put(&entity, "{}").with("If-Match", "*")),
            refused(merge(&entity, "{}")),
            refused(delete(&entity).with("If-Match", "*")),
            refused(delete(&format!("{UP}()?$filter=true"))),
            get(&format!("{UP}?comp=acl")).fails(403, "AuthorizationFailure", FrontEnd),
            get(&format!("{UP}?comp=indexes")).fails(403, "AuthorizationFailure", FrontEnd),
            // A view is not in the list of tables.
            get("/Tables('$ByTotalOfcars')").answers(404, "ResourceNotFound"),
            delete("/Tables('$ByTotalOfcars')").answers(404, "ResourceNotFound"),
            post("/Tables", r#"{"TableName":"$ByTotalOfcars"}"#).answers(400, "InvalidResourceName"),
        ],
    );
    // Arbitrary positions are compared like any other.
    for position in [&b""[..], b"pk", &[4, 0, 0], &[255, 255, 255], &[8, 255, 255, 0, 1, 2], &[0, 1]] {
        for view in [UP, DOWN] {
            let (partition, row) = encode_in_list(position, &view[1..]);
            let options = format!("?NextPartitionKey={partition}&NextRowKey={row}");
            let response = get(&format!("{view}{options}")).send(&mut server.client());
            assert!(keys_in(&response).len() <= 6, "{view} {position:?}");
        }
    }
    index(&server, "cars", &[]);
    check(&server, [get(UP).fails(404, "ResourceNotFound", Query).says(missing)]);
    server.assert_unharmed();
}

#[test]
fn a_token_of_another_list_is_refused() {
    let server = Server::with_changes(KeepChanges { age: Duration::from_hours(1), bytes: u64::MAX }, |settings| {
        settings.extensions = true;
        settings.query_time = Duration::ZERO;
    });
    server.create(&["cars", "bikes"]);
    for table in ["cars", "bikes"] {
        index(&server, table, &["Total", "Other"]);
        for key in ["a1", "b1", "b2"] {
            insert(&server, table, key, "Total", "\"x\",\"Other\":\"x\"");
        }
    }
    let range = signature("r", |fields| fields.start_partition = "b".into());
    let lists = [
        "/cars()",
        "/$ByTotalOfcars()",
        "/$ByTotalDescendingOfcars()",
        "/$ByOtherOfcars()",
        "/$ByTotalOfbikes()",
        "/$Changescars()",
    ];
    let mut requests: Vec<_> = lists.iter().map(|list| (*list, get(&format!("{list}?$top=1")))).collect();
    // The pages of a count end at the deadline. A count and a query of a view have the same positions, unless the
    // credential has a key range.
    requests.push(("/$ByTotalOfcars()", get("/$ByTotalOfcars()/$count?")));
    requests.push(("count in a range", get("/$ByTotalOfcars()/$count?").signed(&range)));
    requests.push(("/$Changescars()", get("/$Changescars()/$count?")));
    for (list, first) in &requests {
        let response = first.send(&mut server.client());
        let token = tokens(&response).unwrap_or_else(|| panic!("{first:?} has another page: {response:?}"));
        for (other, second) in &requests {
            let response = second.clone().option(&token).send(&mut server.client());
            let expected = if list == other { 200 } else { 400 };
            assert_eq!(response.status, expected, "{second:?} with a token of {first:?}");
        }
    }
}

#[test]
fn views_in_a_batch() {
    let server = shop();
    let batch = |text: &str| {
        let case = post("/$batch", text).with("Content-Type", "multipart/mixed; boundary=b");
        String::from_utf8(case.send(&mut server.client()).body).unwrap()
    };
    let query = format!("GET {UP}?$top=1 HTTP/1.1\nAccept: application/json;odata=nometadata\n");
    let text = batch(&format!("--b\nContent-Type: application/http\n\n{query}\n--b--\n"));
    assert!(text.contains("HTTP/1.1 200 OK") && text.contains("\"RowKey\":\"2\""), "{text}");
    let insert =
        format!("POST {UP} HTTP/1.1\nContent-Type: application/json\n\n{{\"PartitionKey\":\"a\",\"RowKey\":\"9\"}}\n");
    let text = batch(&format!(
        "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n\n{insert}--c--\n--b--\n"
    ));
    assert!(text.contains("HTTP/1.1 403 Forbidden") && text.contains("AuthorizationFailure"), "{text}");
}

#[test]
fn without_extensions_there_are_no_views() {
    let server = Server::with_tables(&["cars"]);
    check(
        &server,
        [
            get(UP).fails(400, "InvalidResourceName", Query),
            post(UP, r#"{"PartitionKey":"a","RowKey":"9"}"#).fails(400, "InvalidResourceName", Query),
            get(&format!("{UP}(PartitionKey='a',RowKey='1')")).fails(400, "InvalidResourceName", Query),
            get(UP).signed(&signature("r", |_| {})).answers(403, "AuthorizationFailure"),
        ],
    );
}

#[test]
fn the_cost_names_the_index() {
    let server = shop();
    let cost = |case: Case| {
        let response = case.with("x-ms-rowhouse-explain", "1").send(&mut server.client());
        let mut cost: Value = serde_json::from_str(response.header("x-ms-rowhouse-explain").unwrap()).unwrap();
        let _microseconds = cost.as_object_mut().unwrap().remove("microseconds");
        let _ranges = cost.as_object_mut().unwrap().remove("ranges");
        cost
    };
    let scan = |index: &str, examined: u64, returned: u64| serde_json::json!({ "plan": "table scan", "rangeCount": 1, "index": index, "examined": examined, "returned": returned });
    assert_eq!(cost(get(UP)), scan("Total", 6, 6));
    assert_eq!(cost(get(&format!("{DOWN}/$count"))), scan("Total", 6, 6));
    let equal = "?$filter=Total%20eq%205";
    assert_eq!(cost(get(&format!("/cars{equal}"))), scan("Total", 2, 2));
    assert_eq!(cost(get(&format!("/cars/$count{equal}"))), scan("Total", 2, 2));
    assert_eq!(cost(delete(&format!("/cars{equal}"))), scan("Total", 2, 2));
    let without = cost(get("/cars?$filter=N%20eq%201"));
    assert_eq!((without.get("index"), &without["examined"]), (None, &serde_json::json!(5)));
}

/// `$orderby` and `$skip` on a table.
#[test]
fn the_order_of_a_query_is_that_of_a_view() {
    let server = shop();
    for top in [1, 2, 1000] {
        let list = |options: &str| pages(&server, &format!("/cars?{options}"), top, |case| case);
        assert_eq!(list("$orderby=Total"), "a2 a1 b3 a3 b2 b1");
        assert_eq!(list("$orderby=Total%20asc"), "a2 a1 b3 a3 b2 b1");
        assert_eq!(list("$orderby=Total%20desc"), "b1 b2 a3 b3 a1 a2");
        assert_eq!(list("$orderby=PartitionKey,RowKey"), "a1 a2 a3 b1 b2 b3 c1");
        assert_eq!(list("$orderby=RowKey&$filter=PartitionKey%20eq%20'b'"), "b1 b2 b3");
        assert_eq!(list("$orderby=Total%20desc&$filter=PartitionKey%20eq%20'b'"), "b1 b2 b3");
        assert_eq!(list("$orderby=PartitionKey%20desc,RowKey%20desc"), "c1 b3 b2 b1 a3 a2 a1");
        assert_eq!(list("$orderby=RowKey%20desc&$filter=PartitionKey%20eq%20'b'&$skip=1"), "b2 b1");
        // A client resends the options with the token, and the entities are skipped once.
        assert_eq!(list("$skip=2"), "a3 b1 b2 b3 c1");
        assert_eq!(list("$skip=2&$orderby=Total%20desc"), "a3 b3 a1 a2");
        assert_eq!(list("$skip=1&$filter=Total%20eq%205"), "b3");
        assert_eq!(list("$skip=7"), "");
    }
    let table = get("/cars?$filter=RowKey%20eq%20'2'%20and%20PartitionKey%20eq%20'a'").send(&mut server.client());
    let ordered = get("/cars?$orderby=Total&$top=1").send(&mut server.client());
    assert_eq!(ordered.body, table.body);
    // A token continues the same order only.
    let token = tokens(&ordered).unwrap();
    let refused = |case: Case| case.fails(400, "InvalidInput", Query).because("continuation-invalid");
    check(
        &server,
        [
            refused(get(&format!("/cars?{token}"))),
            refused(get(&format!("/cars?$orderby=Total%20desc&{token}"))),
            get(&format!("{UP}?{token}")).answers(200, None),
            get("/cars?$skip=x").fails(400, "InvalidInput", Storage).because("skip-invalid"),
            get("/cars?$orderby=Total%20up").fails(400, "InvalidInput", Query).because("order-by-unsupported"),
            get("/cars?$orderby=N")
                .fails(404, "ResourceNotFound", Query)
                .because("order-by-unsupported: The index of N"),
            get("/cars?$orderby=RowKey").fails(501, "NotImplemented", Storage).because("order-by-unsupported"),
            get("/cars?$orderby=Total,N").fails(501, "NotImplemented", Storage).because("order-by-unsupported"),
            get("/cars?$orderby=PartitionKey,RowKey%20desc")
                .fails(501, "NotImplemented", Storage)
                .because("order-by-unsupported"),
            get(&format!("{UP}?$orderby=Total")).fails(501, "NotImplemented", Storage).because("order-by-unsupported"),
            get("/other?$orderby=Total").fails(404, "TableNotFound", Query),
        ],
    );
}

#[test]
fn a_signature_for_a_key_range_skips_only_entities_in_the_range() {
    let server = shop();
    let range = signature("r", |fields| {
        (fields.start_partition, fields.start_row) = ("a".into(), "3".into());
        (fields.end_partition, fields.end_row) = ("b".into(), "2".into());
    });
    let list = |options: &str| pages(&server, &format!("/cars?{options}"), 1, |case| case.signed(&range));
    assert_eq!(list("$skip=1"), "b1 b2");
    assert_eq!(list("$skip=1&$orderby=PartitionKey%20desc,RowKey%20desc"), "b1 a3");
    assert_eq!(list("$skip=1&$orderby=Total"), "b2 b1");
    assert_eq!(list("$skip=1&$orderby=Total%20desc"), "b2 a3");
}

#[test]
fn the_rest_of_the_entities_to_skip_is_in_the_token() {
    let server = Server::with(|settings| {
        settings.extensions = true;
        settings.query_time = Duration::ZERO;
    });
    server.create(&["cars"]);
    index(&server, "cars", &["Total"]);
    for (key, total) in [("a1", "5"), ("a2", "4"), ("a3", "3"), ("a4", "2"), ("a5", "1")] {
        insert(&server, "cars", key, "Total", total);
    }
    // Every page ends after one examined entity.
    for (options, expected) in [("$skip=3", "a4 a5"), ("$skip=3&$orderby=Total", "a2 a1")] {
        let path = format!("/cars?{options}");
        let (mut keys, mut sizes, mut url) = (Vec::new(), Vec::new(), Some(path.clone()));
        while let Some(current) = url {
            let response = get(&current).send(&mut server.client());
            let page = keys_in(&response);
            url = next(&path, &response);
            sizes.push(page.len());
            keys.extend(page);
        }
        assert_eq!(keys.join(" "), expected);
        assert_eq!(sizes[..3], [0, 0, 0], "{options}");
    }
    for path in ["/cars?$count=true", "/cars?$count=true&$orderby=Total"] {
        check(&server, [get(path).fails(500, "OperationTimedOut", Storage).because("count-invalid")]);
    }
}

#[test]
fn the_first_page_contains_the_number_of_all_entities_that_match() {
    let server = shop();
    let page = |options: &str| get(&format!("/cars?{options}")).level("nometadata").send(&mut server.client());
    let count = |options: &str| page(options).json()["odata.count"].as_str().map(ToOwned::to_owned);
    assert_eq!(count("$inlinecount=allpages").as_deref(), Some("7"));
    assert_eq!(count("$inlinecount=allpages&$top=0").as_deref(), Some("7"));
    assert_eq!(count("$inlinecount=allpages&$skip=2&$top=1&$orderby=Total").as_deref(), Some("6"));
    assert_eq!(count("$inlinecount=allpages&$filter=Total%20eq%205").as_deref(), Some("2"));
    assert_eq!(count("$count=true&$filter=Total%20eq%205").as_deref(), Some("2"));
    assert_eq!(count("$inlinecount=none"), None);
    let path = "/cars?$inlinecount=allpages&$top=1";
    let first = get(path).level("nometadata").send(&mut server.client());
    let second = get(&next(path, &first).unwrap()).level("nometadata").send(&mut server.client());
    assert_eq!(second.json().get("odata.count"), None);
    let atom = get("/cars?$inlinecount=allpages").atom().send(&mut server.client());
    assert!(String::from_utf8(atom.body).unwrap().contains("<m:count>7</m:count>"));
    let range = signature("r", |fields| (fields.start_partition, fields.end_partition) = ("a".into(), "a".into()));
    let confined = get(path).level("nometadata").signed(&range).send(&mut server.client());
    assert_eq!(confined.json()["odata.count"], "3");
    let invalid = get("/cars?$inlinecount=all").fails(400, "InvalidInput", Storage).because("count-invalid");
    check(&server, [invalid]);
    let no_index = "order-by-unsupported: The index of N";
    check(&server, [get("/cars?$count=true&$orderby=N").fails(404, "ResourceNotFound", Query).because(no_index)]);
    // The count of an empty set, and the count of a query in a batch.
    let empty = page("$count=true&$filter=N%20eq%209");
    assert_eq!(String::from_utf8(empty.body).unwrap(), r#"{"odata.count":"0","value":[]}"#);
    let query =
        "GET /cars?$count=true&$skip=1&$top=1&$orderby=Total HTTP/1.1\nAccept: application/json;odata=nometadata";
    let batch = format!("--b\nContent-Type: application/http\n\n{query}\n\n--b--\n");
    let content_type = ("Content-Type", "multipart/mixed; boundary=b");
    let answer = server.client().request("POST", "/$batch", &[content_type], batch.as_bytes());
    let text = String::from_utf8(answer.body).unwrap();
    assert!(text.contains(r#"{"odata.count":"6","value":[{"PartitionKey":"a","RowKey":"1","#), "{text}");
}

#[test]
fn an_order_of_keys_replaces_the_order_of_the_dialect() {
    let server = Server::with(|settings| {
        settings.extensions = true;
        settings.dialect = Dialect::Cosmos;
    });
    server.create(&["cars"]);
    for key in ["a1", "a2", "b1"] {
        insert(&server, "cars", key, "Total", "1");
    }
    for top in [1, 2, 1000] {
        let list = |options: &str| pages(&server, &format!("/cars{options}"), top, |case| case);
        assert_eq!(list(""), "b1 a2 a1");
        assert_eq!(list("?$skip=1"), "a2 a1");
        assert_eq!(list("?$orderby=PartitionKey,RowKey&$skip=1"), "a2 b1");
        assert_eq!(list("?$orderby=PartitionKey%20desc,RowKey%20desc"), "b1 a2 a1");
    }
    let counted = get("/cars?$count=true&$top=1").send(&mut server.client());
    assert_eq!(counted.json()["odata.count"], "3");
}

#[test]
fn without_extensions_the_options_are_refused_or_ignored() {
    let server = Server::with_tables(&["cars"]);
    insert(&server, "cars", "a1", "Total", "1");
    let refused = |options: &str| {
        let path = format!("/cars?{options}");
        get(&path).fails(501, "NotImplemented", Storage).because("option-unsupported")
    };
    check(&server, ["$orderby=RowKey", "$skip=1", "$skip=1&$skip=x", "$inlinecount=allpages"].map(refused));
    let body = |options: &str| get(&format!("/cars{options}")).level("nometadata").send(&mut server.client()).body;
    assert_eq!(body("?$count=true"), body(""));
    assert_eq!(body("?$count=x"), body(""));
}
