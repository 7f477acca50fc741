//! Tests of `rowhouse entity`.

use super::CommandTest;
use crate::PROGRAM;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

fn without_times(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(at) = text.find(":\"20").filter(|at| text[at + 2..].contains("Z\"")) {
        let end = at + 2 + text[at + 2..].find('"').unwrap();
        text.replace_range(at + 2..end, "T");
    }
    while let Some(at) = text.find("\"W/\\\"datetime'") {
        let end = at + text[at..].find("'\\\"\"").unwrap() + 4;
        text.replace_range(at..end, "E");
    }
    text
}

fn with_cars() -> CommandTest {
    let test = CommandTest::new();
    test.prints(&["table", "create", "cars"]);
    for words in [
        &["kestrel", "0007", "Model=Kestrel, the old", "Doors:Int32=4", "Weight:Double=981.5", "Ready:Boolean=true"][..],
        &["kestrel", "0008", "Model=", "Serial:Int64=-9007199254740993", "Blob:Binary=AQID"],
        &["wren", "-1", "Built:DateTime=2023-11-05T06:30:00.1234567Z", "Tag:Guid=0b0c0d0e-1111-4222-8333-444455556666"],
    ] {
        let etag = test.prints(&[&["entity", "put", "cars"], words].concat());
        assert!(etag.starts_with("W/\"datetime'") && etag.ends_with("'\"\n"), "{etag}");
    }
    test
}

#[test]
fn queries_in_every_form() {
    let test = with_cars();
    let query = |words: &[&str]| without_times(&test.prints(&[&["entity", "query", "cars"], words].concat()));
    let head = |row: &str, partition: &str| {
        format!(
            "{{\"odata.etag\":E,\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"Timestamp@odata.type\":\"Edm.DateTime\",\"Timestamp\":\"T\""
        )
    };
    let first = format!(
        "{},\"Doors\":4,\"Model\":\"Kestrel, the old\",\"Ready\":true,\"Weight@odata.type\":\"Edm.Double\",\"Weight\":981.5}}",
        head("0007", "kestrel")
    );
    let second = format!(
        "{},\"Blob@odata.type\":\"Edm.Binary\",\"Blob\":\"AQID\",\"Model\":\"\",\"Serial@odata.type\":\"Edm.Int64\",\"Serial\":\"-9007199254740993\"}}",
        head("0008", "kestrel")
    );
    assert_eq!(query(&["--filter", "PartitionKey eq 'kestrel'"]), format!("{first}\n{second}\n"));
    assert_eq!(query(&["--top", "2", "--output", "json"]), format!("[{first},\n{second}]\n"));
    assert_eq!(query(&["--top", "0", "--output", "json"]), "[]\n");
    assert_eq!(query(&["--select", "Doors", "--top", "1"]), format!("{},\"Doors\":4}}\n", head("0007", "kestrel")));
    let csv = query(&["--output", "csv", "--select", "Model,Serial"]);
    let times: Vec<&str> = csv.lines().skip(1).map(|line| line.split(',').nth(2).unwrap()).collect();
    assert!(times.iter().all(|time| time.starts_with("20") && time.ends_with('Z')), "{csv}");
    let csv = times.iter().fold(csv.clone(), |csv, time| csv.replace(time, "T"));
    let expected = "PartitionKey,RowKey,Timestamp,Model,Model@type,Serial,Serial@type\r\n\
        kestrel,0007,T,\"Kestrel, the old\",Edm.String,,\r\nkestrel,0008,T,,Edm.String,-9007199254740993,Edm.Int64\r\nwren,-1,T,,,,\r\n";
    assert_eq!(csv, expected);
    let table = query(&["--output", "table", "--select", "Model,Doors"]);
    let shown: Vec<&str> = table.lines().map(|line| line.split("  20").next().unwrap().trim_end()).collect();
    let expected = [
        "PartitionKey  RowKey  Doors  Model             Timestamp",
        "------------  ------  -----  ----------------  ----------------------------",
        "kestrel       0007    4      Kestrel, the old",
        "kestrel       0008           \"\"",
        "wren          -1",
        "(3 entities)",
    ];
    assert_eq!(shown[..1], expected[..1]);
    assert_eq!(shown[2..], expected[2..]);
}

#[test]
fn one_entity_in_every_form() {
    let test = with_cars();
    let line = without_times(&test.prints(&["entity", "get", "cars", "wren", "-1"]));
    let expected = "{\"odata.etag\":E,\"PartitionKey\":\"wren\",\"RowKey\":\"-1\",\"Timestamp@odata.type\":\"Edm.DateTime\",\"Timestamp\":\"T\",\
        \"Built@odata.type\":\"Edm.DateTime\",\"Built\":\"T\",\"Tag@odata.type\":\"Edm.Guid\",\"Tag\":\"0b0c0d0e-1111-4222-8333-444455556666\"}\n";
    assert_eq!(line, expected);
    let table = test.prints(&["entity", "get", "cars", "kestrel", "0008", "--output", "table"]);
    let (fixed, rest) = table.split_at(table.find("Timestamp").unwrap());
    let expected = "PartitionKey            kestrel\nRowKey                  0008\nBlob          Binary    AQID\n\
        Model         String    \"\"\nSerial        Int64     -9007199254740993\n";
    assert_eq!(fixed, expected);
    assert!(rest.contains("\nETag                    W/\"datetime'"), "{rest}");
    let csv = test.prints(&["entity", "get", "cars", "wren", "-1", "--output", "csv", "--select", "Tag"]);
    assert!(csv.starts_with("PartitionKey,RowKey,Timestamp,Tag,Tag@type\r\nwren,-1,20"), "{csv}");
    let missing = "rowhouse: ENDPOINT: reading an entity from the table 'cars' was refused: 404 ResourceNotFound: \
                   The specified resource does not exist.\n";
    assert_eq!(test.says(4, &["entity", "get", "cars", "wren", "2"]), missing);
}

#[test]
fn writing_with_and_without_conditions() {
    let test = with_cars();
    let doors = || {
        let line =
            test.prints(&["entity", "query", "cars", "--filter", "RowKey eq '0007'", "--select", "Doors,Weight"]);
        line.split("\"T\"").next().unwrap().split("Z\"").last().unwrap().trim().to_owned()
    };
    let put = ["entity", "put", "cars", "kestrel", "0007"];
    let old = test.prints(&[&put[..], &["Doors:Int32=5", "--merge"]].concat());
    assert_eq!(doors(), ",\"Doors\":5,\"Weight@odata.type\":\"Edm.Double\",\"Weight\":981.5}");
    let new = test.prints(&[&put[..], &["Doors:Int32=6"]].concat());
    assert_eq!(doors(), ",\"Doors\":6}");
    let changed = "rowhouse: ENDPOINT: replacing an entity in the table 'cars' was refused: 412 UpdateConditionNotSatisfied: The update \
        condition specified in the request was not satisfied. (the entity has changed: read it to get its new ETag)\n";
    assert_eq!(test.says(5, &[&put[..], &["Doors:Int32=7", "--if-match", old.trim()]].concat()), changed);
    test.prints(&[&put[..], &["Doors:Int32=7", "--replace", "--if-match", new.trim()]].concat());
    test.prints(&[&put[..], &["Weight:Double=1", "--merge", "--if-match", "*"]].concat());
    assert_eq!(doors(), ",\"Doors\":7,\"Weight@odata.type\":\"Edm.Double\",\"Weight\":1.0}");
    let exists = "rowhouse: ENDPOINT: inserting an entity into the table 'cars' was refused: 409 EntityAlreadyExists: The specified entity \
        already exists. (omit --insert to replace it, or use --merge to change it)\n";
    assert_eq!(test.says(5, &[&put[..], &["--insert"]].concat()), exists);
    test.says(4, &["entity", "put", "cars", "kestrel", "9", "A=1", "--if-match", "*"]);
    test.prints(&["entity", "put", "cars", "kestrel", "9", "--insert"]);
    test.says(5, &["entity", "delete", "cars", "kestrel", "9", "--if-match", old.trim()]);
    assert_eq!(test.prints(&["entity", "delete", "cars", "kestrel", "9"]), "");
    test.says(4, &["entity", "delete", "cars", "kestrel", "9"]);
    assert_eq!(test.prints(&["entity", "delete", "cars", "kestrel", "9", "--if-exists"]), "");
}

#[test]
fn entities_as_json() {
    let test = with_cars();
    let etags = test.prints(&[
        "entity",
        "put",
        "cars",
        "--json",
        "[{\"PartitionKey\":\"a\",\"RowKey\":\"1\"},{\"PartitionKey\":\"a\",\"RowKey\":\"2\"}]",
    ]);
    assert_eq!(etags.lines().count(), 2);
    test.prints(&["entity", "put", "cars", "a", "3", "--json", "{\"N\":1}"]);
    assert_eq!(test.prints(&["entity", "count", "cars", "--filter", "PartitionKey eq 'a'"]), "3\n");
    // An entity that was read is written back unchanged.
    let line = test.prints(&["entity", "get", "cars", "wren", "-1"]);
    test.prints(&["table", "create", "copies"]);
    let mut command = Command::new(PROGRAM.path());
    command.env_clear().env("ROWHOUSE_ENDPOINT", &test.endpoint).args(["entity", "put", "copies", "--json", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let copy = test.prints(&["entity", "get", "copies", "wren", "-1"]);
    assert_eq!(copy.split_once("\"Built").unwrap().1, line.split_once("\"Built").unwrap().1);
    for (words, told) in [
        (&["--json", "{\"PartitionKey\":\"a\"}"][..], "rowhouse: --json, column 1: the RowKey is missing\n"),
        (&["a", "1", "N:Int32=x"], "rowhouse: the value of 'N' is not Edm.Int32 (a whole number of 32 bits)\n"),
        (&["a", "1", "N"], "rowhouse: 'N' is not a property: write Name=value or Age:Int32=5\n"),
        (
            &["a/b", "1", "N=1"],
            "rowhouse: \"a/b\" is not a valid PartitionKey: use up to 512 characters, without / \\ # ? and control characters\n",
        ),
        (
            &["a", "1", "N=1", "--if-match", "x"],
            "rowhouse: 'x' is not a valid ETag: write it like W/\"datetime'2031-04-01T06%3A30%3A00.1234567Z'\", or * for any\n",
        ),
        (&[], "rowhouse: no entity given: pass PARTITION ROW NAME=VALUE…, or --json\n"),
    ] {
        assert_eq!(test.says(1, &[&["entity", "put", "cars"], words].concat()), told);
    }
}

/// Creates the table `many` with 2,500 entities, whose `N` is numbered from 0.
fn import_many(test: &CommandTest) {
    let lines = (0..2500).map(|row| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row:04}\",\"N\":{row}}}\n"));
    let lines = lines.collect::<Vec<_>>().concat();
    std::fs::write(test.folder.path("many.jsonl"), lines).unwrap();
    test.prints(&["import", "--from", "many.jsonl", "--to", &test.endpoint]);
}

#[test]
fn all_pages_are_read_and_counted() {
    let test = CommandTest::new();
    import_many(&test);
    assert_eq!(test.prints(&["entity", "count", "many"]), "2500\n");
    assert_eq!(test.prints(&["entity", "count", "many", "--filter", "N ge 2000"]), "500\n");
    for parallel in ["1", "64"] {
        assert_eq!(test.prints(&["entity", "count", "many", "--parallel", parallel]), "2500\n");
        let odd = ["entity", "count", "many", "--filter", "N ge 2000 and RowKey lt '2200'", "--parallel", parallel];
        assert_eq!(test.prints(&odd), "200\n");
    }
    assert!(test.says(2, &["entity", "count", "many", "--parallel", "65"]).contains("65 is not in 1..=64"));
    assert!(test.says(4, &["entity", "count", "none"]).contains("404 TableNotFound"));
    let rows = |words: &[&str]| test.prints(&[&["entity", "query", "many"], words].concat()).lines().count();
    assert_eq!((rows(&[]), rows(&["--top", "1500"])), (2500, 1500));
    // The columns are named once, although there are three pages.
    assert_eq!(rows(&["--output", "table"]), 2 + 2500 + 1);
    let told = test.says(1, &["entity", "count", "many", "--filter", "N gt"]);
    let reason =
        "rowhouse: ENDPOINT: querying the table 'many' was refused: filter-syntax: The filter ends at position 4, ";
    assert!(told.starts_with(reason), "{told}");
    assert!(told.ends_with(" (400 InvalidInput: Expression expected at position 4 in 'N gt'.)\n"), "{told}");
    // A reader that closes the pipe is not an error.
    let mut command = Command::new(PROGRAM.path());
    command.env_clear().env("ROWHOUSE_ENDPOINT", &test.endpoint).args(["entity", "query", "many"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn matching_entities_are_counted_and_deleted() {
    for options in [&["--in-memory"][..], &["--in-memory", "--extensions"]] {
        let test = CommandTest::with(options);
        import_many(&test);
        let count = || test.prints(&["entity", "count", "many"]);
        let delete = ["entity", "delete", "many", "--filter", "N ge 2000"];
        assert_eq!(test.prints(&[&delete[..], &["--dry-run"]].concat()), "500\n");
        assert_eq!(count(), "2500\n");
        assert_eq!(test.prints(&delete), "500\n");
        assert_eq!((test.prints(&delete), count()), ("0\n".to_owned(), "2000\n".to_owned()));
        assert_eq!(test.prints(&["entity", "count", "many", "--filter", "N ge 1990"]), "10\n");
        let empty = "rowhouse: --filter is empty: to delete all entities of the table, pass --filter true\n";
        for (code, words, told) in [
            (1, &["many"][..], "pass PARTITION ROW, or --filter FILTER to delete all matching entities"),
            (1, &["many", "--filter", ""], empty),
            (1, &["many", "--filter", " ", "--dry-run"], empty),
            (1, &["many", "--filter", "N gt"], "400 InvalidInput: Expression expected at position 4 in 'N gt'."),
            (2, &["many", "p", "0001", "--filter", "true"], "cannot be used with"),
            (2, &["many", "--if-exists", "--filter", "true"], "cannot be used with"),
            (2, &["many", "p", "0001", "--dry-run"], "cannot be used with"),
            (2, &["many", "--dry-run"], "--filter"),
            (4, &["none", "--filter", "true"], "404 TableNotFound"),
        ] {
            let said = test.says(code, &[&["entity", "delete"], words].concat());
            assert!(said.contains(told), "{words:?}: {said}");
        }
        assert_eq!(count(), "2000\n");
        assert_eq!(test.prints(&["entity", "delete", "many", "--filter", "true"]), "2000\n");
        assert_eq!(count(), "0\n");
    }
}

#[test]
fn a_deletion_that_ends_early_says_how_to_continue() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/devstoreaccount1", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        for head in ["200 OK\r\nx-ms-continuation-NextPartitionKey: p", "403 Forbidden"] {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut byte) = (Vec::new(), [0]);
            while !request.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                request.push(byte[0]);
            }
            let rest = "Content-Type: text/plain;charset=utf-8\r\nContent-Length: 4\r\nConnection: close\r\n\r\n1234";
            stream.write_all(format!("HTTP/1.1 {head}\r\n{rest}").as_bytes()).unwrap();
        }
    });
    let words = ["delete", "many", "--filter", "true"];
    let ran = PROGRAM.folder().run("entity", &words, &[("ROWHOUSE_ENDPOINT", &endpoint)]);
    server.join().unwrap();
    let told = "rowhouse: 1,234 entities were deleted; run the same command to delete the rest: ";
    assert!(ran.code == Some(1) && ran.stdout.is_empty() && ran.stderr.starts_with(told), "{ran:?}");
}

#[test]
fn metrics_tables_are_read_and_not_written() {
    let test = CommandTest::with(&["--in-memory", "--analytics"]);
    let table = "$MetricsHourPrimaryTransactionsTable";
    assert_eq!(test.prints(&["entity", "count", table]), "0\n");
    assert_eq!(test.prints(&["entity", "query", table, "--output", "json"]), "[]\n");
    let told = format!(
        "rowhouse: '{table}' is not a valid table name: use 3 to 63 letters and digits, beginning with a letter\n"
    );
    assert_eq!(test.says(1, &["entity", "put", table, "p", "r"]), told);
    assert_eq!(test.says(1, &["table", "delete", table]), told);
    let told = test.says(1, &["entity", "count", "$a/b"]);
    assert!(told.starts_with("rowhouse: '$a/b' is not a valid table name"), "{told}");
}

#[test]
fn a_string_that_looks_like_the_numbers_of_others_is_reported() {
    let test = with_cars();
    let put = |words: &[&str]| test.run(0, &[&["entity", "put", "cars"], words].concat()).stderr;
    let warning = "warning: 'Doors' is written as a String, but other entities have the type Int32 there. Filters treat values of \
        another type as less than any Int32. Write Doors:Int32=5 or, to keep the String, Doors:String=5\n";
    assert_eq!(put(&["kestrel", "0009", "Doors=5", "Model=7"]), warning);
    // The partition has no such property, but the table has.
    assert_eq!(put(&["wren", "0009", "Doors=5"]), warning);
    assert_eq!(put(&["owl", "0009", "Doors=5", "--merge"]), warning);
    assert!(put(&["kestrel", "0010", "Ready=true"]).contains("Write Ready:Boolean=true or"));
    for words in [
        &["Doors:String=5"][..],
        &["Doors=many"],
        &["Doors:Int32=5"],
        &["Model=7"],
        &["Seats=5"],
        &["--json", "{\"Doors\":\"5\"}"],
    ] {
        assert_eq!(put(&[&["kestrel", "0011"], words].concat()), "", "{words:?}");
    }
    test.prints(&["table", "create", "empty"]);
    test.prints(&["entity", "put", "empty", "p", "r", "Doors=5"]);
    let missing = test.says(4, &["entity", "put", "none", "p", "r", "Doors=5"]);
    assert!(missing.contains("404 TableNotFound"), "{missing}");
}

#[test]
fn the_preview_of_a_deletion_counts_what_matches_because_of_types() {
    for options in [&["--in-memory"][..], &["--in-memory", "--extensions"]] {
        let test = CommandTest::with(options);
        test.prints(&["table", "create", "cars"]);
        for (row, doors) in [
            ("1", "Doors:Int32=2"),
            ("2", "Doors:Double=2.5"),
            ("3", "Doors:String=4"),
            ("4", "Doors:Guid=0b0c0d0e-1111-4222-8333-444455556666"),
            ("5", "Seats:Int32=5"),
        ] {
            test.prints(&["entity", "put", "cars", "p", row, doors]);
        }
        for (filter, count, others) in [
            ("Doors lt 3", "4", Some("2 of them match only because 'Doors' has")),
            ("not (Doors ge 3)", "5", Some("2 of them match only because 'Doors' has")),
            ("Doors lt 3 or Seats ne 'x'", "5", Some("3 of them match only because 'Doors' or 'Seats' has")),
            ("PartitionKey eq 'p' or Doors lt 3", "5", None),
            ("Doors lt 3L and RowKey lt '3'", "2", Some("1 of them match")),
            ("Doors gt 1", "2", None),
            ("true", "5", None),
        ] {
            let ran = test.run(0, &["entity", "delete", "cars", "--dry-run", "--filter", filter]);
            assert_eq!(ran.stdout, format!("{count}\n"), "{filter}");
            match others {
                Some(others) => assert!(ran.stderr.starts_with(others), "{filter}: {}", ran.stderr),
                None => assert_eq!(ran.stderr, "", "{filter}"),
            }
        }
        assert_eq!(test.prints(&["entity", "count", "cars"]), "5\n");
    }
}
