//! What a credential with a key range learns about entities outside it: nothing. Two servers have the same entities in
//! the range; only one of them has others. Whatever the credential asks, both servers give the same response.

use crate::{Case, Server, check, delete, get, merge, post, put, signature};
use engine::KeepChanges;
use std::ops::RangeInclusive;
use std::time::Duration;
use test_support::{Client, Random, Response, statuses, transact};

type Key = (&'static str, &'static str);

const PARTITIONS: [&str; 6] = ["p3", "p4", "p5", "p6", "p7", "q"];
const ROWS: [&str; 5] = ["1", "2", "3", "4", "5"];
/// Values of all groups of types, some of them equal, and some longer than what an index contains of them.
const VALUES: [&str; 9] = [
    "3",
    "3",
    "3.0",
    "7",
    "true",
    "\"\"",
    "\"secret\"",
    "\"2031-03-14T08:15:30Z\",\"Total@odata.type\":\"Edm.DateTime\"",
    "\"7000000000\",\"Total@odata.type\":\"Edm.Int64\"",
];
const RANGES: [RangeInclusive<Key>; 4] =
    [("p5", "1")..=("p5", "5"), ("p4", "3")..=("p6", "2"), ("p3", "5")..=("p4", "4"), ("p5", "3")..=("p5", "3")];
const FILTERS: [&str; 9] = [
    "",
    "Total%20eq%203",
    "Total%20ge%203%20and%20Total%20lt%205",
    "Total%20eq%20'secret'",
    "startswith(Total,'s')",
    "PartitionKey%20eq%20'p5'",
    "PartitionKey%20ge%20'p4'%20and%20Total%20eq%203",
    "RowKey%20eq%20'2'",
    "RowKey%20eq%20'none'",
];

fn server(query_time: Duration) -> Server {
    let keep = KeepChanges { age: Duration::from_hours(1), bytes: u64::MAX };
    let server = Server::with_changes(keep, |settings| {
        settings.extensions = true;
        settings.query_time = query_time;
    });
    server.create(&["cars"]);
    let indexes = "<TableIndexes><TableIndex><Property>Total</Property></TableIndex></TableIndexes>";
    check(&server, [put("/cars?comp=indexes", indexes).answers(204, None)]);
    server
}

fn address((partition, row): (&str, &str)) -> String {
    format!("/cars(PartitionKey='{partition}',RowKey='{row}')")
}

fn body((partition, row): (&str, &str), value: &str) -> String {
    let total = if value.is_empty() { String::new() } else { format!(",\"Total\":{value}") };
    format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"{total}}}")
}

fn value(random: &mut Random) -> String {
    match random.below(10) {
        0 => String::new(),
        1 => format!("\"{}{}\"", "x".repeat(256), random.below(3)),
        _ => VALUES[random.index(VALUES.len())].to_owned(),
    }
}

fn key(random: &mut Random, is_wanted: impl Fn(&Key) -> bool) -> Key {
    loop {
        let key = (PARTITIONS[random.index(PARTITIONS.len())], ROWS[random.index(ROWS.len())]);
        if is_wanted(&key) {
            return key;
        }
    }
}

/// Returns everything that a response tells, without what differs between any two responses. The position up to which
/// the log was read is common to all readers of the feed.
fn told(response: &Response) -> String {
    let headers = response.headers.iter().filter(|(name, _)| name != "x-ms-rowhouse-position");
    let headers: Vec<_> = headers.map(|(name, value)| format!("{name}: {value}")).collect();
    let Response { status, reason, body, .. } = response;
    let text = format!("{status} {reason}\n{}\n\n{}", headers.join("\n"), String::from_utf8_lossy(body));
    without_ids(&without_time(&text))
}

/// Leaves out the time in the cost of a query.
fn without_time(text: &str) -> String {
    let mut parts = text.split("microseconds\":");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Leaves out UUIDs.
fn without_ids(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    let words = text.split_inclusive(|c| !is_part(c));
    let is_id = |word: &str| word.split('-').map(str::len).take(4).eq([8, 4, 4, 4]);
    words.filter(|word| !is_id(word)).collect()
}

fn tokens(response: &Response) -> Option<String> {
    let partition = response.header("x-ms-continuation-nextpartitionkey")?;
    Some(format!("NextPartitionKey={partition}&NextRowKey={}", response.header("x-ms-continuation-nextrowkey")?))
}

/// Returns the path of a list, of its count, or of the change feed, with options.
fn list(random: &mut Random, with_changes: bool) -> String {
    let lists = [
        "/cars()",
        "/cars(PartitionKey='p5')",
        "/$ByTotalOfcars()",
        "/$ByTotalDescendingOfcars()",
        "/$ByTotalOfcars(PartitionKey='p4')",
        "/cars()/$count",
        "/$ByTotalOfcars()/$count",
        "/$ByTotalDescendingOfcars()/$count",
        "/$Changescars()",
        "/$Changescars()/$count",
    ];
    let path = lists[random.index(if with_changes { lists.len() } else { lists.len() - 2 })];
    let top = if path.ends_with("$count") { String::new() } else { format!("&$top={}", random.below(4)) };
    format!("{path}?$filter={}{top}", FILTERS[random.index(FILTERS.len())])
}

/// Returns a request that changes nothing, or only entities that both servers have.
fn request(random: &mut Random, is_inside: impl Fn(&Key) -> bool, has_deleted: &mut bool) -> Case {
    let outside = key(random, |key| !is_inside(key));
    let any = match random.below(3) {
        0 => key(random, &is_inside),
        _ => outside,
    };
    match random.below(20) {
        0 => get(&address(any)),
        1 => post("/cars", &body(outside, "1")),
        2 => put(&address(outside), "{}").with("If-Match", "*"),
        3 => merge(&address(outside), "{}"),
        4 => delete(&address(outside)).with("If-Match", "*"),
        5 => {
            let part = format!("GET {} HTTP/1.1\nAccept: application/json\n", list(random, false));
            let text = format!("--b\nContent-Type: application/http\n\n{part}\n--b--\n");
            post("/$batch", &text).with("Content-Type", "multipart/mixed; boundary=b")
        }
        6 => {
            *has_deleted = true;
            delete(&format!("/cars()?$filter={}", FILTERS[1 + random.index(FILTERS.len() - 1)]))
        }
        _ => get(&list(random, !*has_deleted)),
    }
}

/// Changes entities outside the range.
fn change(client: &mut Client, random: &mut Random, is_inside: impl Fn(&Key) -> bool) {
    for _ in 0..random.below(4) {
        let key = key(random, |key| !is_inside(key));
        let value = value(random);
        let case = match random.below(3) {
            0 => delete(&address(key)).with("If-Match", "*"),
            _ => put(&address(key), &body(key, &value)),
        };
        assert!([204, 404].contains(&case.send(client).status));
    }
}

#[test]
fn nothing_depends_on_entities_outside_the_range() {
    let mut random = Random::from_environment("nothing_depends_on_entities_outside_the_range");
    for (round, range) in RANGES.into_iter().cycle().take(12).enumerate() {
        let query_time = if round % 2 == 0 { Duration::ZERO } else { Duration::from_mins(1) };
        let servers = [server(query_time), server(query_time)];
        let [mut alone, mut shared] = [servers[0].client(), servers[1].client()];
        let (from, to) = (*range.start(), *range.end());
        let signed = signature("raud", |fields| {
            (fields.start_partition, fields.start_row) = (from.0.into(), from.1.into());
            (fields.end_partition, fields.end_row) = (to.0.into(), to.1.into());
        });
        let is_inside = |key: &Key| range.contains(key);
        for key in PARTITIONS.into_iter().flat_map(|partition| ROWS.map(|row| (partition, row))) {
            if is_inside(&key) && random.below(4) > 0 {
                let body = body(key, &value(&mut random));
                check(&servers[0], [post("/cars", &body).answers(201, None)]);
                check(&servers[1], [post("/cars", &body).answers(201, None)]);
            }
        }
        for _ in 0..30 {
            change(&mut shared, &mut random, is_inside);
        }
        let mut has_deleted = false;
        for _ in 0..60 {
            change(&mut shared, &mut random, is_inside);
            let mut case = request(&mut random, is_inside, &mut has_deleted).signed(&signed);
            if random.below(2) == 0 {
                case = case.with("x-ms-rowhouse-explain", "1");
            }
            // A token that names an entity outside the range, if the request is for a list.
            let foreign = case.unsigned().filter(|_| random.below(4) == 0).map(|case| case.send(&mut shared));
            let mut token = foreign.as_ref().and_then(tokens);
            for page in 0..40 {
                let case = token.iter().fold(case.clone(), |case, token| case.option(token));
                let responses = [case.send(&mut alone), case.send(&mut shared)];
                assert_eq!(told(&responses[0]), told(&responses[1]), "{case:?}");
                assert!(page == 0 || responses[0].status == 200, "a token is accepted: {case:?} {:?}", responses[0]);
                token = tokens(&responses[0]);
                if token.is_none() {
                    break;
                }
                change(&mut shared, &mut random, is_inside);
            }
            assert_eq!(token, None, "the pages end: {case:?}");
        }
    }
}

#[test]
fn the_plan_does_not_depend_on_how_many_entities_of_others_match() {
    let costs = [0, 10_100].map(|others| {
        let server = server(Duration::from_mins(1));
        let mut client = server.client();
        for (first, partition) in (0..others).step_by(100).zip(["p1", "p9"].into_iter().cycle()) {
            let put = |row| {
                let address = address((partition, &format!("{row}")));
                let head = "HTTP/1.1\r\nContent-Type: application/json\r\n";
                format!("PUT http://127.0.0.1/devstoreaccount1{address} {head}\r\n{{\"Total\":5}}")
            };
            let answer = transact(&mut client, &(first..first + 100).map(put).collect::<Vec<_>>()).unwrap();
            assert!(statuses(&answer).iter().all(|status| *status == 204));
        }
        check(&server, [post("/cars", &body(("p5", "1"), "5")).answers(201, None)]);
        let range = signature("r", |fields| {
            (fields.start_partition, fields.end_partition) = ("p3".into(), "p6".into());
        });
        let filters = ["Total%20eq%205", "Total%20ge%205", "Total%20eq%205%20and%20PartitionKey%20eq%20'p5'"];
        let lists = ["/cars()", "/cars()/$count", "/$ByTotalOfcars()", "/$ByTotalOfcars()/$count"];
        let queries = lists.iter().flat_map(|list| filters.map(|filter| format!("{list}?$filter={filter}")));
        let costs = queries.map(|query| {
            let case = get(&query).signed(&range).with("x-ms-rowhouse-explain", "1");
            let response = case.send(&mut client);
            let cost = response.header("x-ms-rowhouse-explain").unwrap();
            (query, without_time(cost))
        });
        costs.collect::<Vec<_>>()
    });
    assert_eq!(costs[0], costs[1]);
    // An index is of use only where the entities of others can be passed over.
    for (query, cost) in &costs[0] {
        assert_eq!(cost.contains("\"index\":\"Total\""), query.contains("eq%205"), "{query} {cost}");
    }
}
