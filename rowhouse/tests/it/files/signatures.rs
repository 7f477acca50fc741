//! Tests of exports and imports with shared access signatures that have few permissions.

use super::{done, endpoint};
use crate::PROGRAM;
use test_support::command::Folder;
use test_support::content::{fill, snapshot};

fn signature(folder: &Folder, arguments: &[&str]) -> String {
    let ran = done(folder, "sas", &[arguments, &["--expiry", "1h"]].concat());
    // The credential may be the token, or a URL with it.
    let url = ran.stdout.split_whitespace().find(|word| word.starts_with("http") && word.contains("sig="));
    url.unwrap().to_owned()
}

#[test]
fn a_signature_of_a_part_of_a_table_is_enough_for_that_part() {
    let folder = PROGRAM.folder();
    let from = PROGRAM.start(&["--in-memory"]);
    fill(&from, "cars", 5, 300);
    fill(&from, "vans", 1, 3);
    let service = endpoint(&from);
    let range = ["--from-partition", "p00001", "--to-partition", "p00002"];
    let token = signature(&folder, &[&["table", "cars", "--permissions", "r"][..], &range].concat());
    let secret = [("ROWHOUSE_FROM_KEY", token.as_str())];
    // The development account would need no key.
    let export = ["--from", &service, "--to", "out", "--table", "cars"];
    let ran = folder.run("export", &export, &secret);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("--skip-policies") && !ran.stderr.contains("sig="), "{ran:?}");
    let ran = folder.run("export", &[&export[..], &["--skip-policies"]].concat(), &secret);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.starts_with("exported to out: 1 table, 0 entities in ")
            && ran.stdout.ends_with("; 600 including earlier runs\n"),
        "{ran:?}"
    );
    assert!(!std::fs::read_to_string(folder.path("out/export.json")).unwrap().contains("sig="));
    let ran = folder.run("export", &["--from", &service, "--to", "all", "--skip-policies"], &secret);
    assert!(ran.code == Some(1) && ran.stderr.contains("403"), "{ran:?}");

    let to = PROGRAM.start(&["--in-memory"]);
    let target = endpoint(&to);
    let token = signature(&folder, &[&["table", "cars", "--permissions", "rau"][..], &range].concat());
    let secret = [("ROWHOUSE_TO_KEY", token.as_str())];
    let import = ["--from", "out", "--to", &target];
    let ran = folder.run("import", &import, &secret);
    assert!(ran.code == Some(1) && ran.stderr.contains("404"), "it cannot create the table: {ran:?}");
    test_support::content::create_table(&mut to.client(), "cars");
    let ran = folder.run("import", &import, &secret);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("600"), "{ran:?}");
    // Outside its range, and in other tables, the signature grants no permissions.
    test_support::content::create_table(&mut to.client(), "vans");
    for (file, partition) in [("cars.jsonl", "p00003"), ("vans.jsonl", "p00001")] {
        let line = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"new\"}}\n");
        std::fs::write(folder.path(file), line).unwrap();
        let ran = folder.run("import", &["--from", file, "--to", &target], &secret);
        assert!(ran.code == Some(1) && ran.stderr.contains("403"), "{file}: {ran:?}");
    }
    assert_eq!(snapshot(&to).entities(), 600);
}
