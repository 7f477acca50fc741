//! Tests of `rowhouse accounts`.

use crate::PROGRAM;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use test_support::command::{CommandResult, Folder};

fn run(folder: &Folder, words: &[&str]) -> CommandResult {
    folder.run("accounts", words, &[])
}

fn done(folder: &Folder, words: &[&str]) -> String {
    let ran = run(folder, words);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{words:?}: {ran:?}");
    ran.stdout
}

fn keys(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| Some(line.split_once("key")?.1.split('"').nth(1)?.to_owned())).collect()
}

fn accepts(folder: &Folder, file: &str, account: &str, key: &str) -> bool {
    let server = PROGRAM.start(&["--in-memory", "--accounts", &folder.path(file)]);
    let url = format!("http://{}/{account}", server.address);
    let ran = folder.run("table", &["list", "--endpoint", &url], &[("ROWHOUSE_KEY", key)]);
    assert!(ran.code == Some(0) || ran.stderr.contains("403"), "{ran:?}");
    ran.code == Some(0)
}

#[test]
fn a_new_account_is_one_that_the_server_accepts() {
    let folder = PROGRAM.folder();
    let printed = done(&folder, &["new", "orchard"]);
    fs::write(folder.path("printed.toml"), &printed).unwrap();
    let made = keys(&printed);
    assert!(made.len() == 2 && made[0] != made[1] && made.iter().all(|key| key.len() == 88), "{printed}");
    assert!(accepts(&folder, "printed.toml", "orchard", &made[0]));

    let said = done(&folder, &["new", "willow", "--file", "accounts.toml"]);
    let text = fs::read_to_string(folder.path("accounts.toml")).unwrap();
    assert!(keys(&text).iter().all(|key| !said.contains(key)) && said.contains("SIGHUP"), "{said}");
    assert_eq!(fs::metadata(folder.path("accounts.toml")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(accepts(&folder, "accounts.toml", "willow", &keys(&text)[1]));

    // Existing content and permissions are kept.
    let commented = format!("# ours\n{text}# the end");
    fs::write(folder.path("accounts.toml"), &commented).unwrap();
    fs::set_permissions(folder.path("accounts.toml"), Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("accounts.toml", folder.path("link.toml")).unwrap();
    done(&folder, &["new", "elder", "--file", "link.toml"]);
    let both = fs::read_to_string(folder.path("accounts.toml")).unwrap();
    assert!(both.starts_with(&format!("{commented}\n\n[[account]]\nname = \"elder\"\n")), "{both}");
    assert_eq!(fs::metadata(folder.path("accounts.toml")).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(folder.path("link.toml")).unwrap().is_symlink());
    assert_eq!(done(&folder, &["list", "--file", "accounts.toml"]), "willow  2 keys\nelder  2 keys\n");
    let names: Vec<_> = fs::read_dir(folder.path("")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn one_key_is_replaced_and_the_other_stays_valid() {
    let folder = PROGRAM.folder();
    done(&folder, &["new", "orchard", "--file", "accounts.toml"]);
    let read = || keys(&fs::read_to_string(folder.path("accounts.toml")).unwrap());
    let old = read();
    let said = done(&folder, &["rotate", "orchard", "--file", "accounts.toml"]);
    assert!(said.starts_with("'orchard' has a new key2 in accounts.toml; its key1 is unchanged\n"), "{said}");
    let second = read();
    assert!(second[0] == old[0] && second[1] != old[1], "{said}");
    assert!(!accepts(&folder, "accounts.toml", "orchard", &old[1]));
    assert!(accepts(&folder, "accounts.toml", "orchard", &old[0]));
    done(&folder, &["rotate", "orchard", "--file", "accounts.toml", "--key", "key1"]);
    let last = read();
    assert!(last[0] != second[0] && last[1] == second[1]);
    assert!(accepts(&folder, "accounts.toml", "orchard", &last[0]));
}

#[test]
fn what_cannot_be_done_changes_nothing() {
    let folder = PROGRAM.folder();
    done(&folder, &["new", "orchard", "--file", "accounts.toml"]);
    let text = fs::read_to_string(folder.path("accounts.toml")).unwrap();
    let broken = text.replace("key2", "key3");
    fs::write(folder.path("broken.toml"), &broken).unwrap();
    for (words, told) in [
        (&["new", "orchard", "--file", "accounts.toml"][..], "'orchard' already exists"),
        (&["new", "An_Orchard", "--file", "accounts.toml"], "lowercase letters and digits"),
        (&["rotate", "willow", "--file", "accounts.toml"], "there is no account 'willow'"),
        (&["rotate", "willow", "--file", "missing.toml"], "the file missing.toml does not exist"),
        (&["list", "--file", "missing.toml"], "the file missing.toml does not exist"),
        (&["new", "willow", "--file", "broken.toml"], "line 4, column 1: unknown option 'key3'; did you mean 'key"),
        (&["new", "willow", "--file", "no/folder.toml"], "writing no/folder.toml"),
    ] {
        let ran = run(&folder, words);
        assert!(ran.code == Some(1) && ran.stderr.contains(told), "{words:?}: {ran:?}");
        assert!(!keys(&text).iter().any(|key| ran.stderr.contains(key.as_str())), "{words:?}: {ran:?}");
    }
    assert_eq!(fs::read_to_string(folder.path("accounts.toml")).unwrap(), text);
    assert_eq!(fs::read_to_string(folder.path("broken.toml")).unwrap(), broken);
}

#[test]
fn the_example_file_is_one_that_the_server_accepts_with_keys() {
    let folder = PROGRAM.folder();
    let example = include_str!("../../../../deploy/accounts.toml");
    let printed = done(&folder, &["new", "orchard"]);
    fs::write(folder.path("accounts.toml"), example).unwrap();
    let ran = run(&folder, &["list", "--file", "accounts.toml"]);
    assert!(
        ran.stderr.contains("a key of account 'orchard' is invalid"),
        "the unchanged example must not be accepted: {ran:?}"
    );
    // Uncommented, the rest is valid too.
    let quota = example.replace("# [account.quota]\n# max", "[account.quota]\nmax");
    fs::write(folder.path("accounts.toml"), quota.replace("<key>", &keys(&printed)[0])).unwrap();
    assert!(quota.contains("\n[account.quota]\n"));
    assert_eq!(done(&folder, &["list", "--file", "accounts.toml"]), "orchard  2 keys\n");
}
