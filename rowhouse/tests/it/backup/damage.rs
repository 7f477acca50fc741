//! Tests that flipped bits in a repository are found by a verification, and never restored.

use super::repository::{Place, files};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use test_support::command::CommandResult;
use test_support::content::{fill, fill_with_everything, put};

const FLIPS: u64 = 40;

#[test]
fn a_flipped_bit_in_a_repository_is_found_and_not_restored() {
    let place = Place::new();
    let mut random = super::random();
    let server = place.serve();
    fill(&server, "Cars", 4, 1000);
    place.back_up(&[]);
    let root = Path::new(&place.repository);
    // A missing chunk is found as well, and a partial chunk is rewritten.
    let chunk = &files(&root.join("chunks"))[0];
    let good = fs::read(chunk).unwrap();
    fs::remove_file(chunk).unwrap();
    let ran = place.verify();
    assert!(ran.code == Some(1) && ran.stdout.contains("is missing"), "{ran:?}");
    fs::write(chunk, &good[..good.len() / 2]).unwrap();
    assert_eq!(place.verify().code, Some(1));
    assert_eq!(place.back_up(&[])["new_chunks"], 1);
    assert_eq!((place.verify().code, fs::read(chunk).unwrap()), (Some(0), good));
    // The chunks are merged from layers.
    for row in 0..20 {
        put(
            &mut server.client(),
            "Cars",
            &format!("p{:05}", row % 4),
            &format!("{:05}", row * 49),
            &json!({ "Changed": row }),
        );
    }
    let changed = place.back_up(&["--keep", "1"]);
    assert!(changed["chunks"].as_u64() > Some(changed["new_chunks"].as_u64().unwrap()), "{changed}");
    drop(server);
    // The empty lock file has no bits.
    let files: Vec<_> =
        place.repository_files().into_iter().filter(|file| fs::metadata(file).unwrap().len() > 0).collect();
    let pick = |bound: u64| usize::try_from(bound).unwrap();
    for round in 0..FLIPS {
        let file = &files[pick(random.below(files.len() as u64))];
        let good = fs::read(file).unwrap();
        let mut bytes = good.clone();
        let (at, bit) = (pick(random.below(good.len() as u64)), random.below(8));
        bytes[at] ^= 1 << bit;
        fs::write(file, &bytes).unwrap();
        let what = format!("bit {bit} of byte {at} of {}", file.strip_prefix(root).unwrap().display());
        let ran = place.verify();
        assert_eq!(ran.code, Some(1), "{what} was not found: {ran:?}");
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert!(ran.stdout.contains(name) || ran.stderr.contains(name), "{what} was not reported: {ran:?}");
        let ran = place.try_restore("new", &[]);
        assert_eq!(ran.code, Some(1), "{what} was restored in round {round}: {ran:?}");
        fs::write(file, &good).unwrap();
        let _not_begun = fs::remove_dir_all(place.folder.path("new"));
    }
}

fn check(place: &Place, arguments: &[&str]) -> (Option<i32>, Value, CommandResult) {
    let ran = place.folder.run("check", &[&["--quiet", "--json"], arguments].concat(), &[]);
    (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_default(), ran)
}

fn content(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    files(folder).into_iter().map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

#[test]
fn a_check_counts_entities_and_reports_damage_by_its_exit_code() {
    let place = Place::new();
    let (code, _, ran) = check(&place, &["--data", &place.data]);
    assert!(code == Some(2) && ran.stderr.contains("no data folder"), "{ran:?}");
    let server = place.serve();
    fill_with_everything(&server);
    fill(&server, "Cars", 2, 700);
    let entities = |report: &Value| {
        let tables = report["tables"].as_array().unwrap().iter();
        tables.map(|table| table["entities"].as_u64().unwrap()).sum::<u64>()
    };
    let (code, online, ran) = check(&place, &["--data", &place.data]);
    assert_eq!((code, &online["online"]), (Some(0), &Value::Bool(true)), "{ran:?}");
    // As after a crash.
    server.kill9();
    fs::remove_file(Path::new(&place.data).join("control.sock")).unwrap();
    let data = Path::new(&place.data);
    let before = content(data);
    let (code, report, ran) = check(&place, &["--data", &place.data, "--scratch", &place.folder.path("")]);
    assert_eq!(code, Some(0), "{ran:?}");
    assert_eq!(online["entities"], entities(&report), "{ran:?}");
    assert!(content(data) == before, "the folder was changed");
    assert_eq!(fs::read_dir(place.folder.path("")).unwrap().count(), 1, "only the data folder remains");
    let told = place.folder.run("check", &["--data", &place.data], &[]).stdout;
    assert!(told.contains("devstoreaccount1/Cars: 1,400 entities, "), "{told}");
    let needle = b"Text";
    let segments = before.iter().filter(|(path, _)| path.extension().is_some_and(|ending| ending == "log"));
    let mut found = segments.filter_map(|(path, bytes)| {
        Some((path, bytes, bytes.windows(needle.len()).position(|bytes| bytes == needle)?))
    });
    let (segment, good, at) = found.next().unwrap();
    let mut damaged = good.clone();
    damaged[at] ^= 1;
    fs::write(segment, damaged).unwrap();
    let (code, report, ran) = check(&place, &["--data", &place.data]);
    assert_eq!(code, Some(1), "{ran:?}");
    assert_eq!(report["problems"][0]["place"].as_str(), segment.to_str());
    // For repositories, the check is the verification.
    fs::write(segment, good).unwrap();
    place.back_up(&[]);
    let (code, report, ran) = check(&place, &["--backup", &place.repository]);
    assert_eq!((code, &report["backups"]), (Some(0), &1.into()), "{ran:?}");
    let chunk = files(&Path::new(&place.repository).join("chunks")).swap_remove(0);
    fs::remove_file(chunk).unwrap();
    assert_eq!(check(&place, &["--backup", &place.repository]).0, Some(1));
    assert_eq!(check(&place, &["--backup", &place.data]).0, Some(2));
}
