//! Tests that an export can be imported, and that a second export is identical.

use super::random::{SEED, lines};
use super::{assert_same_files, done, endpoint, files, manifest};
use crate::PROGRAM;
use test_support::Random;
use test_support::cluster::Cluster;
use test_support::command::Folder;
use test_support::content::{fill, fill_with_everything, snapshot};

fn random_data(folder: &Folder, random: &mut Random) {
    std::fs::write(folder.path("first.jsonl"), lines(random, 400)).unwrap();
    done(folder, "import", &["--from", "first.jsonl", "--to", "data", "--table", "Random"]);
}

#[test]
fn random_entities_of_all_types_survive_a_round_trip_through_folders() {
    let mut random = Random::from_environment(SEED);
    let folder = PROGRAM.folder();
    random_data(&folder, &mut random);
    for format in ["jsonl", "csv"] {
        let (one, two, copy) = (format!("one-{format}"), format!("two-{format}"), format!("data-{format}"));
        done(&folder, "export", &["--from", "data", "--to", &one, "--format", format]);
        done(&folder, "import", &["--from", &one, "--to", &copy]);
        done(&folder, "export", &["--from", &copy, "--to", &two, "--format", format]);
        assert_same_files(&folder, &two, &one);
        assert_eq!(manifest(&folder, &two), manifest(&folder, &one));
        let names: Vec<String> = files(&folder, &one).into_keys().collect();
        assert_eq!(names, [format!("Random.{format}")], "only the file remains");
    }
    // CSV preserves everything except the order of properties; JSON preserves that, too.
    done(&folder, "export", &["--from", "data-csv", "--to", "by-way-of-csv"]);
    let ordered = |name: &str| {
        let text = String::from_utf8(files(&folder, name).remove("Random.jsonl").unwrap()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>()
    };
    assert_eq!(ordered("by-way-of-csv"), ordered("one-jsonl"));
    let text = String::from_utf8(files(&folder, "one-jsonl").remove("Random.jsonl").unwrap()).unwrap();
    assert!(text.contains(":-0.0") && text.contains("\"NaN\""), "zero keeps its sign");
}

#[test]
fn random_entities_survive_a_round_trip_through_services() {
    let mut random = Random::from_environment(SEED);
    let folder = PROGRAM.folder();
    random_data(&folder, &mut random);
    done(&folder, "export", &["--from", "data", "--to", "exact"]);
    // No service preserves the sign of zero.
    let exact = String::from_utf8(files(&folder, "exact").remove("Random.jsonl").unwrap()).unwrap();
    let expected = exact.replace(":-0.0,", ":0.0,").replace(":-0.0}", ":0.0}");
    for format in ["jsonl", "csv"] {
        let (first, second) =
            (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--data", &folder.path(&format!("served-{format}"))]));
        let (one, two) = (format!("one-{format}"), format!("two-{format}"));
        done(&folder, "import", &["--from", "exact", "--to", &endpoint(&first)]);
        done(&folder, "export", &["--from", &endpoint(&first), "--to", &one, "--format", format]);
        done(&folder, "import", &["--from", &one, "--to", &endpoint(&second)]);
        done(&folder, "export", &["--from", &endpoint(&second), "--to", &two, "--format", format]);
        assert_same_files(&folder, &two, &one);
        if format == "jsonl" {
            assert_eq!(String::from_utf8(files(&folder, &one).remove("Random.jsonl").unwrap()).unwrap(), expected);
        }
    }
}

#[test]
fn everything_except_the_service_properties_is_imported_in_every_mode() {
    let folder = PROGRAM.folder();
    let from = PROGRAM.start(&["--in-memory"]);
    fill_with_everything(&from);
    fill(&from, "many", 40, 60);
    let ran = done(&folder, "export", &["--from", &endpoint(&from), "--to", "out"]);
    assert!(ran.stdout.starts_with("exported to out: 5 tables, 2,484 entities in "), "{ran:?}");
    for mode in ["insert", "replace", "merge"] {
        let to = PROGRAM.start(&["--in-memory"]);
        let arguments = ["--from", "out", "--to", &endpoint(&to), "--mode", mode];
        let ran = done(&folder, "import", &arguments);
        assert!(ran.stdout.starts_with("imported 5 tables, 2,484 entities in "), "{ran:?}");
        // In every mode, an equal existing entity is not an error.
        done(&folder, "import", &arguments);
        test_support::content::set_properties(&mut to.client(), "https://orchard.example");
        assert_eq!(snapshot(&to), snapshot(&from), "{mode}");
        assert!(folder.states("import").is_empty());
    }
}

#[test]
fn entities_survive_a_round_trip_through_a_database() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let mut random = Random::from_environment(SEED);
    let folder = PROGRAM.folder();
    random_data(&folder, &mut random);
    done(&folder, "export", &["--from", "data", "--to", "one"]);
    done(&folder, "import", &["--from", "one", "--to", &database]);
    done(&folder, "export", &["--from", &database, "--to", "two"]);
    assert_same_files(&folder, "two", "one");
}
