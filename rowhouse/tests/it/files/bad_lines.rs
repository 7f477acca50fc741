//! Tests of malformed lines.

use super::{done, endpoint, refused, repeated};
use crate::PROGRAM;
use crate::admin::page::page;
use std::fs::{read_to_string, write};

const FILE: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"N\":1}\n\
    {\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"N\":}\n\
    \n\
    {\"PartitionKey\":\"p/q\",\"RowKey\":\"3\"}\n\
    {\"PartitionKey\":\"p\",\"RowKey\":\"4\",\"N@odata.type\":\"Edm.Int64\",\"N\":\"many\"}\n\
    {\"PartitionKey\":\"p\",\"RowKey\":\"5\"}";

#[test]
fn a_bad_line_is_named_and_none_is_skipped_without_an_option() {
    let folder = PROGRAM.folder();
    let to = PROGRAM.start(&["--in-memory"]);
    write(folder.path("cars.jsonl"), FILE).unwrap();
    let told = refused(&folder, "import", &["--from", "cars.jsonl", "--to", &endpoint(&to)]);
    assert!(
        told.contains("cars.jsonl:2:38: this is not JSON: expected value (skip such lines with --skip-bad"),
        "{told}"
    );
    assert!(!told.contains("to continue") && folder.states("import").is_empty(), "nothing was written: {told}");
    let told = refused(&folder, "import", &["--from", "cars.jsonl", "--to", &endpoint(&to), "--skip-bad", "2"]);
    assert!(told.contains("cars.jsonl:2:38: ") && told.contains("cars.jsonl:4:2: "), "{told}");
    assert!(told.contains("cars.jsonl:5:61: the value of 'N' is not Edm.Int64"), "{told}");
    assert!(told.contains("--skip-bad allows only 2 bad lines"), "{told}");
}

#[test]
fn a_key_that_is_a_number_is_named() {
    let folder = PROGRAM.folder();
    let to = PROGRAM.start(&["--in-memory"]);
    let service = endpoint(&to);
    let line = "{\"PartitionKey\":\"p\",\"RowKey\":17}";
    let told = "the RowKey is a number, but keys are strings: write it in quotes, \"17\"";
    write(folder.path("cars.jsonl"), line).unwrap();
    let said = refused(&folder, "import", &["--from", "cars.jsonl", "--to", &service]);
    assert!(said.contains(&format!("cars.jsonl:1:21: {told}")), "{said}");
    let said = refused(&folder, "entity", &["put", "cars", "--json", line, "--endpoint", &service]);
    assert!(said.contains(told), "{said}");
    let ran = folder.run("serve", &["--in-memory", "--listen", "127.0.0.1:0", "--seed", "."], &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains(told), "{ran:?}");
}

#[test]
fn bad_lines_are_kept_and_can_be_corrected_and_imported() {
    let folder = PROGRAM.folder();
    let to = PROGRAM.start(&["--in-memory"]);
    let service = endpoint(&to);
    write(folder.path("cars.jsonl"), FILE).unwrap();
    let arguments = ["--from", "cars.jsonl", "--to", &service, "--skip-bad", "3", "--bad-lines", "bad.jsonl"];
    let ran = done(&folder, "import", &arguments);
    assert!(ran.stdout.starts_with("imported 1 table, 2 entities in "), "{ran:?}");
    assert!(ran.stdout.ends_with("; 3 bad lines were skipped\n"), "{ran:?}");
    let bad = read_to_string(folder.path("bad.jsonl")).unwrap();
    let expected: Vec<&str> = FILE.lines().skip(1).take(4).filter(|line| !line.is_empty()).collect();
    assert_eq!(bad.lines().collect::<Vec<_>>(), expected);
    let corrected = bad.replace("\"N\":}", "\"N\":2}").replace("p/q", "pq").replace("many", "7");
    write(folder.path("bad.jsonl"), corrected).unwrap();
    done(&folder, "import", &["--from", "bad.jsonl", "--to", &service, "--table", "cars"]);
    let ran = done(&folder, "export", &["--from", &service, "--table", "cars", "--to", "-"]);
    assert_eq!(ran.stdout.lines().count(), 5);
}

#[test]
fn bad_records_of_csv_are_kept_with_the_header() {
    let folder = PROGRAM.folder();
    let to = PROGRAM.start(&["--in-memory"]);
    let records =
        "PartitionKey,RowKey,N,N@type,T\np,1,1,Edm.Int32,\"two\nlines\"\np,2,x,Edm.Int32,\np,3\np,4,,,\"open\n";
    write(folder.path("cars.csv"), records).unwrap();
    let arguments = ["--from", "cars.csv", "--to", &endpoint(&to), "--skip-bad", "9", "--bad-lines", "bad.csv"];
    let ran = done(&folder, "import", &arguments);
    assert!(ran.stderr.contains("cars.csv:4:5: the value of 'N' is not Edm.Int32"), "{ran:?}");
    assert!(ran.stderr.contains("cars.csv:5:3: the record has 2 fields, but the header has 5"), "{ran:?}");
    assert!(ran.stderr.contains("cars.csv:6:7: the quote that begins here is not closed"), "{ran:?}");
    assert_eq!(
        read_to_string(folder.path("bad.csv")).unwrap(),
        "PartitionKey,RowKey,N,N@type,T\np,2,x,Edm.Int32,\np,3\np,4,,,\"open\n"
    );
}

#[test]
fn an_insert_that_finds_another_entity_is_a_bad_line() {
    let folder = PROGRAM.folder();
    let to = PROGRAM.start(&["--in-memory"]);
    let service = endpoint(&to);
    let lines =
        |n: u32| repeated(150, |row| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row:03}\",\"N\":{}}}\n", row * n));
    write(folder.path("cars.jsonl"), lines(1)).unwrap();
    done(&folder, "import", &["--from", "cars.jsonl", "--to", &service]);
    // In the second file, only the first entity equals the existing one: 0 times anything is 0.
    write(folder.path("other.jsonl"), lines(2)).unwrap();
    let arguments = ["--from", "other.jsonl", "--to", &service, "--table", "cars"];
    let told = refused(&folder, "import", &arguments);
    assert!(told.contains("other.jsonl:2:1: the entity with partition \"p\" and row \"001\" already exists"), "{told}");
    let ran = done(&folder, "import", &[&arguments[..], &["--skip-bad", "149"]].concat());
    assert!(ran.stdout.contains("imported 1 table, 1 entity") && ran.stdout.contains("149 bad lines"), "{ran:?}");
    done(&folder, "import", &[&arguments[..], &["--mode", "replace"]].concat());
    let ran = done(&folder, "export", &["--from", &service, "--table", "cars", "--to", "-"]);
    assert_eq!(ran.stdout, lines(2));
}

#[test]
fn of_lines_with_the_same_keys_the_last_one_counts() {
    let folder = PROGRAM.folder();
    let to = PROGRAM.start(&["--in-memory"]);
    let lines = repeated(500, |n| format!("{{\"PartitionKey\":\"{}\",\"RowKey\":\"r\",\"N\":{n}}}\n", n % 3));
    write(folder.path("cars.jsonl"), lines).unwrap();
    done(&folder, "import", &["--from", "cars.jsonl", "--to", &endpoint(&to), "--mode", "replace"]);
    let ran = done(&folder, "export", &["--from", &endpoint(&to), "--to", "-"]);
    let numbers: Vec<&str> = ran.stdout.lines().map(|line| line.rsplit(':').next().unwrap()).collect();
    assert_eq!(numbers, ["498}", "499}", "497}"]);
}

#[test]
fn lines_that_repeat_the_keys_before_them_cost_few_requests() {
    let folder = PROGRAM.folder();
    // Each of 500 entities in two partitions has four lines in a row, of which the first two are equal.
    let line = |n: u32| {
        let (entity, value) = (n / 4, (n % 4).max(1));
        let (partition, row) = (entity % 2, entity / 2);
        format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row:03}\",\"N\":{value},\"N{value}\":1}}\n")
    };
    write(folder.path("cars.jsonl"), repeated(2000, line)).unwrap();
    for (mode, refused, properties) in [
        ("insert", 1000, "\"N\":1,\"N1\":1}"),
        ("replace", 0, "\"N\":3,\"N3\":1}"),
        ("merge", 0, "\"N\":3,\"N1\":1,\"N2\":1,\"N3\":1}"),
    ] {
        let to = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0"]);
        let service = endpoint(&to);
        let state = format!("{mode}.state");
        let arguments = ["--from", "cars.jsonl", "--to", &service, "--mode", mode, "--skip-bad", "1000"];
        let ran = done(&folder, "import", &[&arguments[..], &["--state", &state]].concat());
        let skipped = format!("; {refused} bad lines were skipped").replace("1000", "1,000");
        assert_eq!(ran.stdout.contains(&skipped), refused > 0, "{mode}: {ran:?}");
        // 250 entities of a partition take three transactions. A line that an insert refuses is compared with the
        // existing entity, which takes another request.
        let transactions = 4 * 2 * 3;
        let compared = if mode == "insert" { 1500 } else { 0 };
        let requests = page(&to).sum("rowhouse_requests_total");
        assert!((transactions..transactions + compared + 10).contains(&requests), "{mode}: {requests}");
        let ran = done(&folder, "export", &["--from", &service, "--to", "-"]);
        assert!(
            ran.stdout.lines().count() == 500 && ran.stdout.lines().all(|line| line.ends_with(properties)),
            "{ran:?}"
        );
    }
}
