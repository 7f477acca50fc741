//! Tests of what a backup restores, and of the ways to create and restore one.

use super::repository::{Place, files};
use serde_json::json;
use std::fs;
use std::path::Path;
use test_support::Server;
use test_support::command::endpoint;
use test_support::content::{exact_snapshot, fill, fill_with_everything, put, snapshot};

#[test]
fn everything_comes_back_exactly_as_it_was() {
    let place = Place::new();
    let server = place.serve();
    fill_with_everything(&server);
    let before = exact_snapshot(&server);
    let first = place.back_up(&[]);
    assert_eq!(first["entities"].as_u64().unwrap(), before.entities() as u64);
    assert_eq!(first["new_chunks"], first["chunks"]);
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
    assert!(!Path::new(&place.data).join("control.sock").exists(), "the socket is removed with the server");

    // Without a server, the command opens the folder itself, and finds nothing new.
    let second = place.back_up(&[]);
    assert_eq!((&second["new_chunks"], &second["entities"]), (&json!(0), &first["entities"]));
    assert_eq!(place.list().len(), 2);
    let verified = place.verify();
    assert_eq!(verified.code, Some(0), "{verified:?}");

    let server = place.restored("new", &[]);
    assert_eq!(exact_snapshot(&server), before);
    // A new write gets a later ETag.
    let path = "/Harvest(PartitionKey='types',RowKey='none')";
    let etag = |server: &Server| server.client().request("GET", path, &[], b"").header("etag").unwrap().to_owned();
    let old = etag(&server);
    put(&mut server.client(), "Harvest", "types", "none", &json!({ "New": 1 }));
    assert!(etag(&server) > old);
    // A backup of the restored folder reuses the chunks of all other data.
    let data = place.folder.path("new");
    let arguments = ["--data", &data, "--to", &place.repository, "--quiet", "--json"];
    let ran = place.folder.run("backup", &arguments, &[]);
    let third: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(third["new_chunks"], 1, "{third}");
}

#[test]
fn a_backup_is_chosen_by_its_id_or_by_time() {
    let place = Place::new();
    let server = place.serve();
    fill(&server, "Cars", 1, 10);
    let mut states = Vec::new();
    let mut backups = Vec::new();
    for number in 0..3 {
        put(&mut server.client(), "Cars", "p", "state", &json!({ "State": number }));
        states.push(exact_snapshot(&server));
        backups.push(place.back_up(&[]));
    }
    let id = |number: usize| backups[number]["backup"].as_str().unwrap();
    let time = |number: usize| backups[number]["time"].as_str().unwrap();
    assert_eq!(place.list(), [id(0), id(1), id(2)]);
    for (name, arguments, expected) in [
        ("newest", vec![], 2),
        ("latest", vec!["--backup", "latest"], 2),
        ("named", vec!["--backup", id(0)], 0),
        ("at", vec!["--at", time(1)], 1),
        ("after", vec!["--at", "9999-01-01T00:00:00Z"], 2),
    ] {
        assert_eq!(exact_snapshot(&place.restored(name, &arguments)), states[expected], "{name}");
    }
    for (arguments, told) in [
        (["--backup", "20260101T0000000000000Z-0123456789abcdef"], "there is no backup"),
        (["--at", "2001-01-01T00:00:00Z"], "there is no backup from"),
        (["--at", "yesterday"], "is not a valid time"),
    ] {
        let ran = place.try_restore("none", &arguments);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(told), "{ran:?}");
        assert!(!Path::new(&place.folder.path("none")).exists());
    }
}

#[test]
fn tables_are_restored_alone_and_under_new_names() {
    let place = Place::new();
    let server = place.serve();
    fill_with_everything(&server);
    let before = exact_snapshot(&server).tables();
    place.back_up(&[]);
    let server = place.restored("some", &["--table", "harvest=Older", "--table", "devstoreaccount1/wide"]);
    let renamed = [("Older", "Harvest"), ("wide", "wide")];
    let expected = renamed.map(|(new, old)| (new.to_owned(), before[old].clone())).into();
    assert_eq!(exact_snapshot(&server).tables(), expected);
    for (format_preferences, told) in [
        (vec!["--table", "Ghost"], "no table 'Ghost'"),
        (vec!["--table", "a-b"], "not a valid table name"),
        (vec!["--table", "other1/wide"], "no table 'wide'"),
        (vec!["--table", "wide=Same", "--table", "odd=same"], "two tables would be restored as"),
        (vec!["--table", "wide="], "not a valid table name"),
    ] {
        let ran = place.try_restore("none", &format_preferences);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(told), "{ran:?}");
        assert!(!Path::new(&place.folder.path("none")).exists());
    }
}

#[test]
fn tables_are_restored_into_a_running_server() {
    let place = Place::new();
    let server = place.serve();
    fill_with_everything(&server);
    // More than a page, and more than a chunk.
    fill(&server, "Cars", 20, 400);
    place.back_up(&[]);
    let before = snapshot(&server).tables();
    let into = endpoint(&server.address);
    let restore = |more: &[&str]| {
        let arguments = ["--from", &place.repository, "--into", &into];
        place.folder.run("restore", &[&arguments, more].concat(), &[])
    };
    let ran = restore(&["--table", "Cars=CarsBefore", "--table", "odd=OddBefore", "--table", "Harvest=HarvestBefore"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("both sides are equal"), "{ran:?}");
    let after = snapshot(&server).tables();
    for name in ["Cars", "odd", "Harvest"] {
        let restored = after.keys().find(|key| key.eq_ignore_ascii_case(&format!("{name}Before"))).unwrap();
        assert_eq!((&after[restored], &after[name]), (&before[name], &before[name]));
    }
    assert_eq!(after.len(), before.len() + 3);
    assert_eq!(place.folder.states("copy"), Vec::<std::path::PathBuf>::new());
    for (format_preferences, told) in [
        (&["--table", "Cars"][..], "already contains entities"),
        (&["--table", "Cars=New", "--table", "cars=Newer"], "is given twice"),
        (&["--table", "Ghost=New"], "no table 'Ghost'"),
        (&[], "required"),
        (&["--table", "Cars=New", "--data", "x"], "cannot be used with"),
    ] {
        let ran = restore(format_preferences);
        assert!(ran.code != Some(0) && ran.stderr.contains(told), "{ran:?}");
    }
    assert_eq!(snapshot(&server).tables(), after);
}

#[test]
fn only_the_newest_backups_are_kept_with_what_they_need() {
    let place = Place::new();
    let server = place.serve();
    fill(&server, "Cars", 10, 1000);
    let mut last = None;
    for round in 0..5 {
        for row in 0..20 {
            put(&mut server.client(), "Cars", "p00005", &format!("{row:05}"), &json!({ "Round": round }));
        }
        // Later backups need the changes of earlier ones, but no table that was deleted.
        fill(&server, &format!("Round{round}"), 1, 10);
        if round > 0 {
            server.client().request("DELETE", &format!("/Tables('Round{}')", round - 1), &[], b"");
        }
        last = Some(place.back_up(&["--keep", "2"]));
    }
    let last = last.unwrap();
    assert_eq!(place.list().len(), 2);
    assert_eq!((&last["removed_backups"], last["removed_chunks"].as_u64() > Some(0)), (&json!(1), true), "{last}");
    assert_eq!(place.verify().code, Some(0));
    let chunks = |place: &Place| files(&Path::new(&place.repository).join("chunks")).len() as u64;
    let all = chunks(&place);
    assert!(all <= last["chunks"].as_u64().unwrap() + 4, "{all} chunks are left: {last}");
    let ids = place.list();
    for (name, id) in [("older", &ids[0]), ("newer", &ids[1])] {
        place.restored(name, &["--backup", id]);
    }
    // Leftovers of an interrupted backup are removed, too.
    let stray = Path::new(&place.repository).join("chunks/00");
    fs::create_dir_all(&stray).unwrap();
    let stray = stray.join(format!("{}.1-1.new", "00".repeat(32)));
    fs::write(&stray, "half").unwrap();
    place.back_up(&["--keep", "1"]);
    assert_eq!((place.list().len(), stray.exists()), (1, false));
}

#[test]
fn a_data_folder_may_have_a_long_path() {
    let mut place = Place::new();
    place.data = place.folder.path(&["d".repeat(100), "e".repeat(100), "f".repeat(100)].join("/"));
    let server = place.serve();
    fill(&server, "Cars", 1, 10);
    assert_eq!(place.back_up(&[])["entities"], 10);
    let log = server.kill9();
    assert!(!log.iter().any(|line| line.contains("WARN")), "{log:?}");
    // The socket of the killed server is replaced.
    let server = place.serve();
    assert_eq!(place.back_up(&[])["new_chunks"], 0);
    let (status, log) = server.stop();
    assert!(status.success() && !log.iter().any(|line| line.contains("WARN")), "{log:?}");
}

#[test]
fn harmful_and_useless_commands_are_refused() {
    let place = Place::new();
    let server = place.serve();
    fill(&server, "Cars", 1, 10);
    place.back_up(&[]);
    drop(server);
    let told = |ran: test_support::command::CommandResult, text: &str| {
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(text), "{ran:?}");
    };
    // A folder that contains data, or any other file, stays unchanged.
    told(place.try_restore("data", &[]), "already contains data");
    fs::create_dir(place.folder.path("other")).unwrap();
    fs::write(place.folder.path("other/notes"), "mine").unwrap();
    told(place.try_restore("other", &[]), "not a Rowhouse data folder");
    assert_eq!(files(Path::new(&place.folder.path("other"))).len(), 1);
    // Backups are not written to unsuitable folders.
    let back_up = |data: &str, to: &str| place.folder.run("backup", &["--data", data, "--to", to], &[]);
    told(back_up(&place.data, &place.folder.path("other")), "pass a missing or empty folder to start a new repository");
    told(back_up(&place.data, &format!("{}/backups", place.data)), "inside the data folder");
    told(back_up(&place.folder.path("ghost"), &place.repository), "no data folder");
    assert!(!Path::new(&place.folder.path("ghost")).exists());
    let ran = place.folder.run("restore", &["--from", &place.data, "--data", "x"], &[]);
    told(ran, "pass the folder that 'rowhouse backup --to' wrote");
    let ran = place.folder.run("restore", &["--from", "/nope", "--data", "x"], &[]);
    told(ran, "there is no backup repository at /nope");
    let database = [("ROWHOUSE_STORE", "postgres://me:secret@localhost/tables")];
    let ran = place.folder.run("backup", &["--to", &place.repository], &database);
    assert!(!ran.stderr.contains("secret"), "{ran:?}");
    told(ran, "pg_dump");
    // Before the first release, the marker had another name.
    let marker = Path::new(&place.repository).join("rowhouse.repository");
    let former = marker.with_file_name("rowhouse.backups");
    fs::rename(&marker, &former).unwrap();
    let advice = "`rowhouse export` the data with that version";
    told(back_up(&place.data, &place.repository), advice);
    told(place.try_restore("x", &[]), advice);
    fs::rename(&former, &marker).unwrap();
    // An empty folder is treated like a missing folder.
    fs::create_dir(place.folder.path("empty")).unwrap();
    assert_eq!(place.try_restore("empty", &[]).code, Some(0));
}
