//! docs/export.md.

use super::{Runbook, stop};
use serde_json::json;
use std::fs;
use test_support::content::{create_table, fill_with_everything, put, snapshot};

#[test]
fn tables_are_exported_and_imported() {
    let mut book = Runbook::open("export.md", &[]);
    let server = book.start_own("rowhouse serve --data ./rowhouse-data");
    fill_with_everything(&server);
    let mut client = server.client();
    create_table(&mut client, "cars");
    for (row, doors) in [("0007", 4), ("0008", 5)] {
        put(&mut client, "cars", "kestrel", row, &json!({ "Doors": doors }));
    }
    let exported = snapshot(&server).tables();
    stop(server);

    book.run(0, "rowhouse export --from ./rowhouse-data --to ./out");
    assert!(book.path("out/export.json").is_file());
    let server = book.start_own("rowhouse serve --data ./rowhouse-data");
    book.run(0, "rowhouse export --from http://127.0.0.1:10002/devstoreaccount1 --table cars --to cars.csv");
    assert_eq!(fs::read_to_string(book.path("cars.csv")).unwrap().lines().count(), 3);
    stop(server);
    book.run(0, "rowhouse import --from ./out --to ./other-data");
    book.run(0, "rowhouse export --from ./rowhouse-data --table cars --to - | jq");

    let server = book.start_own("rowhouse serve --data ./other-data");
    let mut imported = snapshot(&server).tables();
    let few = imported.remove("fewCars").unwrap();
    assert!(few.contains("0008") && !few.contains("0007"), "{few}");
    assert_eq!(imported, exported);
    stop(server);
    book.run_own(1, "rowhouse export --from ./missing --to ./nothing");
    book.end();
}
