//! What shared access signatures allow: permissions and key ranges per operation (08 §3, §6, §9).

use crate::Layer::Storage;
use crate::{Case, Server, check, delete, get, merge, post, put, signature};

const ENTITY: &str = "/cars(PartitionKey='p',RowKey='r')";

fn insert(partition: &str, row: &str) -> Case {
    post("/cars", &format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}"))
}

fn batch(method: &str, target: &str, headers: &str, body: &str) -> Case {
    let text = format!(
        "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n\n{method} {target} HTTP/1.1\nAccept: application/json\nContent-Type: application/json\n{headers}\n{body}\n--c--\n--b--\n"
    );
    post("/$batch", &text).with("Content-Type", "multipart/mixed; boundary=b")
}

/// An operation on entities, and the letters that it needs (08 §3.1).
fn entity_operations() -> Vec<(&'static str, Case)> {
    vec![
        ("r", get("/cars()")),
        ("r", get(ENTITY)),
        ("a", insert("p", "new")),
        ("u", put(ENTITY, "{}").with("If-Match", "*")),
        ("u", merge(ENTITY, "{}").with("If-Match", "*")),
        ("u", Case::new("PATCH", ENTITY, "{}").with("If-Match", "*")),
        ("u", post(ENTITY, "{}").with("X-HTTP-Method", "MERGE").with("If-Match", "*")),
        ("au", put(ENTITY, "{}")),
        ("au", merge(ENTITY, "{}")),
        ("au", Case::new("PATCH", ENTITY, "{}")),
        ("d", delete(ENTITY).with("If-Match", "*")),
    ]
}

/// Operations on tables and on the account, with the resource type and the letters of an account signature (08 §3.2).
fn account_operations() -> Vec<(&'static str, &'static [&'static str], Case)> {
    let properties = "/?restype=service&comp=properties";
    let cors = "<StorageServiceProperties><Cors/></StorageServiceProperties>";
    vec![
        ("c", &["l"], get("/Tables")),
        ("c", &["l"], get("/Tables('cars')")),
        ("c", &["c", "w"], post("/Tables", r#"{"TableName":"new"}"#)),
        ("c", &["d"], delete("/Tables('more')")),
        ("s", &["r"], get(properties)),
        ("s", &["w"], put(properties, cors)),
        ("s", &["r"], get("-secondary/?restype=service&comp=stats")),
    ]
}

fn is_done(server: &Server, case: &Case) -> Result<(), String> {
    let response = case.send(&mut server.client());
    match response.header("x-ms-error-code") {
        None => Ok(()),
        Some(code) => Err(format!("{} {code}", response.status)),
    }
}

fn server() -> Server {
    let server = Server::with_tables(&["cars", "bikes", "more"]);
    check(&server, [insert("p", "r").answers(201, None)]);
    server
}

#[test]
fn each_operation_needs_its_letters() {
    let letters = ["r", "a", "u", "d", "ra", "au", "rud", "rad", "raud"];
    let refusing = server();
    for (needed, case) in entity_operations() {
        for letters in letters {
            let case = case.clone().signed(&signature(letters, |_| {}));
            if needed.chars().all(|letter| letters.contains(letter)) {
                assert_eq!(is_done(&server(), &case), Ok(()), "{letters} {case:?}");
            } else {
                let denied = Err("403 AuthorizationPermissionMismatch".to_owned());
                assert_eq!(is_done(&refusing, &case), denied, "{letters} {case:?}");
            }
        }
    }
    let mismatch = "This request is not authorized to perform this operation using this permission.";
    let read = signature("r", |_| {});
    check(
        &server(),
        [insert("p", "s").signed(&read).fails(403, "AuthorizationPermissionMismatch", Storage).says(mismatch)],
    );
}

#[test]
fn a_query_in_a_batch_needs_its_letter_and_its_table() {
    let query = |target: &str| {
        let part = format!("GET {target} HTTP/1.1\nAccept: application/json\n");
        let text = format!("--b\nContent-Type: application/http\n\n{part}\n--b--\n");
        post("/$batch", &text).with("Content-Type", "multipart/mixed; boundary=b")
    };
    let server = server();
    for (letters, target, expected) in [
        ("r", "/cars()", "HTTP/1.1 200 OK"),
        ("r", ENTITY, "HTTP/1.1 200 OK"),
        ("aud", "/cars()", "AuthorizationPermissionMismatch"),
        ("aud", ENTITY, "AuthorizationPermissionMismatch"),
        ("r", "/bikes()", "\"AuthorizationFailure\""),
    ] {
        let response = query(target).signed(&signature(letters, |_| {})).send(&mut server.client());
        let text = String::from_utf8(response.body).unwrap();
        assert!(text.contains(expected), "{letters} {target}: {text}");
    }
}

#[test]
fn a_signature_for_a_table_allows_nothing_else() {
    let all = signature("raud", |_| {});
    let server = server();
    let denied = |case: Case| case.signed(&all).answers(403, "AuthorizationFailure");
    check(&server, account_operations().into_iter().map(|(_, _, case)| denied(case)));
    check(
        &server,
        [
            denied(get("/bikes()")),
            denied(get("/other()")),
            denied(get("/cars?comp=acl")),
            denied(put("/cars?comp=acl", "")),
            get("/CARS()").signed(&all).answers(200, None),
        ],
    );
    let text = batch("POST", "/bikes", "", r#"{"PartitionKey":"p","RowKey":"s"}"#).signed(&all);
    let text = String::from_utf8(text.send(&mut server.client()).body).unwrap();
    assert!(text.contains("HTTP/1.1 403 Forbidden") && text.contains("AuthorizationFailure"), "{text}");
}

/// Returns an account signature.
fn account(services: &'static str, resources: &'static str, letters: &'static str) -> String {
    signature(letters, |fields| {
        (fields.table, fields.services, fields.resources) = ("".into(), services.into(), resources.into());
    })
}

#[test]
fn account_signatures() {
    let outcome = |case: &Case, services, resources, letters| {
        let server = server();
        is_done(&server, &case.clone().signed(&account(services, resources, letters)))
    };
    let error = |kind: &str| Err(format!("403 Authorization{kind}Mismatch"));
    for (resource, letters, case) in account_operations() {
        for allowed in letters {
            assert_eq!(outcome(&case, "t", resource, allowed), Ok(()), "{case:?}");
        }
        assert_eq!(outcome(&case, "bqf", "sco", "rwdlacu"), error("Service"), "{case:?}");
        let others = ["sc", "co", "so"].into_iter().find(|others| !others.contains(resource)).unwrap();
        assert_eq!(outcome(&case, "t", others, "rwdlacu"), error("ResourceType"), "{case:?}");
        let rest = match letters {
            ["l"] => "rwdacu",
            ["c", "w"] => "rdlau",
            ["d"] => "rwlacu",
            ["r"] => "wdlacu",
            _ => "rdlacu",
        };
        assert_eq!(outcome(&case, "t", "sco", rest), error("Permission"), "{case:?}");
    }
    for (needed, case) in entity_operations() {
        let rest = match needed {
            "r" => "wdlacu",
            "d" => "rwlacu",
            "a" => "rwdlcu",
            _ => "rwdlac",
        };
        assert_eq!(outcome(&case, "t", "o", needed), Ok(()), "{case:?}");
        assert_eq!(outcome(&case, "t", "o", rest), error("Permission"), "{case:?}");
        assert_eq!(outcome(&case, "t", "sc", "rwdlacu"), error("ResourceType"), "{case:?}");
    }
    let policies = get("/cars?comp=acl");
    assert_eq!(outcome(&policies, "t", "sco", "rwdlacu"), Err("403 AuthorizationFailure".to_owned()));
}

#[test]
fn key_ranges() {
    // Inclusive, on the pair of keys (08 §6).
    let server = Server::with_tables(&["cars"]);
    let keys = [("a", "4"), ("a", "5"), ("b", "1"), ("b", "9"), ("c", "7"), ("c", "8"), ("d", "1")];
    check(&server, keys.map(|(partition, row)| insert(partition, row).answers(201, None)));
    let range = signature("raud", |fields| {
        (fields.start_partition, fields.start_row) = ("a".into(), "5".into());
        (fields.end_partition, fields.end_row) = ("c".into(), "7".into());
    });
    let set = |options: &str, rows: &str| {
        let case = get(&format!("/cars()?$select=PartitionKey,RowKey{options}")).level("nometadata").signed(&range);
        let json: Vec<_> = rows
            .split_whitespace()
            .map(|keys| format!(r#"{{"PartitionKey":"{}","RowKey":"{}"}}"#, &keys[..1], &keys[1..]))
            .collect();
        case.ok(200).json(&format!("{{\"value\":[{}]}}", json.join(",")))
    };
    let next = |case: Case, partition: &str, row: &str| {
        case.header("x-ms-continuation-nextpartitionkey", partition).header("x-ms-continuation-nextrowkey", row)
    };
    check(
        &server,
        [
            set("", "a5 b1 b9 c7"),
            set("&$filter=RowKey%20ge%20'8'", "b9"),
            set("&$filter=PartitionKey%20eq%20'd'", ""),
            // A page counts, and its token names, only entities inside the range.
            next(set("&$top=1", "a5"), "1!4!Yg--", "1!4!MQ--"),
            set("&$top=4", "a5 b1 b9 c7"),
            set("&NextPartitionKey=1!4!YQ--&NextRowKey=1!4!MA--", "a5 b1 b9 c7"),
            set("&NextPartitionKey=1!4!ZA--", ""),
        ],
    );
    let outside = "This request is not authorized to perform this operation.";
    for (partition, row) in [("a", "4"), ("c", "8"), ("d", "1"), ("none", "none")] {
        let path = format!("/cars(PartitionKey='{partition}',RowKey='{row}')");
        let (get, put, merge, delete) = (get(&path), put(&path, "{}"), merge(&path, "{}"), delete(&path));
        let stale = "W/\"datetime'x'\"";
        let denied = |case: Case| case.signed(&range).fails(403, "AuthorizationFailure", Storage).says(outside);
        check(
            &server,
            [
                // As if it were absent (08 §6).
                get.signed(&range).fails(404, "ResourceNotFound", Storage),
                denied(insert(partition, row)),
                denied(put.clone()),
                denied(merge.clone()),
                denied(put.with("If-Match", stale)),
                denied(merge.with("If-Match", "*")),
                denied(delete.with("If-Match", stale)),
            ],
        );
        let body = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}");
        for case in [
            batch("POST", "/cars", "", &body),
            batch("PUT", &path, "", "{}"),
            batch("DELETE", &path, "If-Match: *\n", ""),
        ] {
            let text = String::from_utf8(case.signed(&range).send(&mut server.client()).body).unwrap();
            assert!(text.contains("HTTP/1.1 403 Forbidden") && text.contains("\"AuthorizationFailure\""), "{text}");
        }
    }
    // Keys in the body of an upsert do not count.
    let path = "/cars(PartitionKey='b',RowKey='new')";
    check(&server, [put(path, r#"{"PartitionKey":"d","RowKey":"1"}"#).signed(&range).answers(204, None)]);
}

#[test]
fn times_addresses_and_protocols() {
    let query = |change: fn(&mut wire::sas::Fields<'static>)| get("/cars()").signed(&signature("r", change));
    let failed = |case: Case| case.answers(403, "AuthenticationFailed");
    let address = "This request is not authorized to perform this operation using this source IP 127.0.0.1.";
    let protocol = "This request is not authorized to perform this operation using this protocol.";
    check(
        &Server::with_tables(&["cars"]),
        [
            query(|_| {}).answers(200, None),
            failed(query(|fields| fields.expiry = "2031-03-14T08:15:30Z".into())),
            query(|fields| fields.expiry = "2031-03-14T08:15:31Z".into()).answers(200, None),
            query(|fields| fields.sources = "203.0.113.4".into())
                .fails(403, "AuthorizationSourceIPMismatch", Storage)
                .says(address),
            query(|fields| fields.protocols = "https".into())
                .fails(403, "AuthorizationProtocolMismatch", Storage)
                .says(protocol),
            // A table that does not exist is revealed only to a valid signature.
            get("/other()")
                .signed(&signature("r", |fields| fields.table = "other".into()))
                .answers(404, "TableNotFound"),
            failed(get("/cars()").signed(&signature("r", |_| {}).replace("sig=", "sig=A"))),
        ],
    );
}

#[test]
fn the_version_of_a_request() {
    // 08 §10: `api-version`, the header, `sv`.
    let server = Server::with_tables(&["cars"]);
    let sas = signature("r", |_| {});
    let version = |case: Case| case.send(&mut server.client()).header("x-ms-version").map(str::to_owned);
    let bare = || get("/cars()").without("x-ms-version").signed(&sas);
    assert_eq!(version(bare()).as_deref(), Some("2019-02-02"));
    assert_eq!(version(bare().version("2020-12-06")).as_deref(), Some("2020-12-06"));
    let parameter = get("/cars()?api-version=2018-03-28").version("2020-12-06").signed(&sas);
    assert_eq!(version(parameter).as_deref(), Some("2018-03-28"));
}
