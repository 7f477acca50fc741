//! docs/copy.md. A server stands for the emulator, and one with the account `orchard` for the cloud.

use super::{Runbook, stop};
use serde_json::json;
use std::fs;
use test_support::content::{fill_with_everything, put, snapshot};
use test_support::{ACCOUNT, KEY};

#[test]
fn accounts_are_copied() {
    let cloud = "https://orchard.table.core.windows.net";
    let mut book = Runbook::open(
        "copy.md",
        &[
            (cloud, "http://127.0.0.1:10002/devstoreaccount1"),
            ("<account key>", KEY),
            ("127.0.0.1:10002/ACCOUNT", &format!("127.0.0.1:10002/{ACCOUNT}")),
            ("PLACE", "./followed"),
        ],
    );
    fs::write(book.path("orchard.key"), KEY).unwrap();
    let source = book.start_own("rowhouse serve --data ./emulator --keep-log 24h");
    fill_with_everything(&source);
    let all = snapshot(&source);

    book.skip("rowhouse copy --from PLACE --to PLACE", "it shows the form of the command");
    book.run(0, "rowhouse copy --from http://127.0.0.1:10002/devstoreaccount1 --to ./rowhouse-data");
    stop(source);
    let copied = book.start("rowhouse serve --data ./rowhouse-data");
    assert!(snapshot(&copied) == all);
    stop(copied);

    let source = book.start_own("rowhouse serve --data ./emulator --keep-log 24h");
    let from_cloud = format!("--from {cloud} --to /var/lib/rowhouse");
    book.run(0, &format!("ROWHOUSE_FROM_KEY='<account key>' rowhouse copy {from_cloud}"));
    // The page offers two ways. The target must be empty.
    let target = book.path("var/lib/rowhouse");
    book.run_own(1, &format!("rowhouse copy --from-key-file orchard.key {from_cloud}"));
    fs::remove_dir_all(&target).unwrap();
    book.run(0, "rowhouse copy --from https://orchard.table.core.windows.net --from-key-file orchard.key");
    book.run_own(0, &format!("rowhouse copy --verify-only --from-key-file orchard.key {from_cloud}"));

    book.run(0, "rowhouse copy --follow --no-verify");
    put(&mut source.client(), "Harvest", "types", "later", &json!({ "Number": 1 }));
    let all = snapshot(&source);
    book.run(0, "rowhouse copy --follow --from");
    stop(source);
    let followed = book.start_own("rowhouse serve --data ./followed");
    assert!(snapshot(&followed) == all);
    stop(followed);
    book.end();
}
