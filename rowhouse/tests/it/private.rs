//! Tests that files created by the program are accessible only to their owner, that a warning names files that other
//! users can open, and that no message contains a password.

use crate::PROGRAM;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use test_support::command::Folder;
use test_support::content::fill;

/// Returns the number of files and folders.
fn assert_private(path: &Path) -> usize {
    let metadata = fs::symlink_metadata(path).unwrap();
    let mode = metadata.permissions().mode() & 0o777;
    let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(mode, expected, "{} has the mode {mode:o}", path.display());
    if !metadata.is_dir() {
        return 1;
    }
    fs::read_dir(path).unwrap().map(|entry| assert_private(&entry.unwrap().path())).sum::<usize>() + 1
}

/// Uses a umask that makes new files accessible to everyone.
fn run(folder: &Folder, subcommand: &str, arguments: &[&str]) {
    let usual = folder.command(subcommand, arguments, &[]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "umask 000 && exec \"$0\" \"$@\""]).arg(usual.get_program()).args(usual.get_args());
    let ran = command.current_dir(folder.path("")).output().unwrap();
    assert!(ran.status.success(), "{subcommand} {arguments:?}: {ran:?}");
}

#[test]
fn everything_that_is_created_is_for_its_owner_alone() {
    let folder = PROGRAM.folder();
    let path = |name: &str| folder.path(name);
    let server = PROGRAM.start(&["--data", &path("new/data")]);
    fill(&server, "Cars", 20, 1000);
    assert!(assert_private(Path::new(&path("new"))) > 10, "the database and the socket must exist");
    let from = format!("http://{}/devstoreaccount1", server.address);
    run(&folder, "backup", &["--data", &path("new/data"), "--to", &path("backups")]);
    run(&folder, "restore", &["--from", &path("backups"), "--data", &path("restored")]);
    run(&folder, "export", &["--from", &from, "--to", &path("exported"), "--table", "Cars"]);
    let to = ["--to", &path("imported"), "--account", "devstoreaccount1"];
    run(&folder, "import", &[&["--from", &path("exported")], &to[..]].concat());
    run(
        &folder,
        "copy",
        &[&["--from", &from], &["--to", &path("copied"), "--account", "devstoreaccount1"][..]].concat(),
    );
    for name in ["backups", "restored", "exported", "imported", "copied"] {
        assert!(assert_private(Path::new(&path(name))) > 1, "{name}");
    }
    let (status, log) = server.stop();
    assert!(status.success() && !log.iter().any(|line| line.contains("chmod")), "{log:?}");
    assert_private(Path::new(&path("new")));
}

#[test]
fn what_others_may_open_is_named_with_the_command_that_closes_it() {
    let folder = PROGRAM.folder();
    let (data, password, config) = (folder.path("data"), folder.path("password"), folder.path("rowhouse.toml"));
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o750)).unwrap();
    let server = PROGRAM.start(&["--data", &data]);
    server.wait_for_log(&format!("chmod 700 {data}"));
    drop(server);
    fs::set_permissions(&data, Permissions::from_mode(0o700)).unwrap();
    let (_, log) = PROGRAM.start(&["--data", &data]).stop();
    assert!(!log.iter().any(|line| line.contains("chmod")), "{log:?}");
    // Neither URL is usable, so the server stops after the warnings.
    fs::write(&password, "s3cr3t\n").unwrap();
    fs::write(&config, "store = \"postgres://me:s3cr3t@db/t?nonsense=1\"\n").unwrap();
    for (mode, is_named) in [(0o640, true), (0o604, true), (0o600, false)] {
        for path in [&password, &config] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let store = ["--store", "postgres://me@db/t?nonsense=1", "--store-password-file", &password];
        for (path, arguments) in [(&password, &store[..]), (&config, &["--config", &config])] {
            let ran = folder.run("serve", arguments, &[]);
            assert_eq!(ran.stderr.contains(&format!("chmod 600 {path}")), is_named, "{mode:o}: {ran:?}");
            assert!(ran.code == Some(1) && !ran.stderr.contains("s3cr3t"), "{ran:?}");
        }
    }
    let ran = folder.run("copy", &["--from", "http://127.0.0.1:1/orchard", "--to", "x", "--from-key-file", &data], &[]);
    assert!(!ran.stderr.contains("chmod"), "{ran:?}");
}

#[test]
fn no_message_shows_a_password() {
    let folder = PROGRAM.folder();
    let config = folder.path("rowhouse.toml");
    for text in [
        "store = \"postgres://me:s3cr3t@db/t\nlisten = 1",
        "store = postgres://me:s3cr3t@db/t",
        "max-connections = \"s3cr3t\"",
        "durability = \"s3cr3t\"",
        "[[account]]\nkey1 = \"s3cr3t\"",
    ] {
        fs::write(&config, text).unwrap();
        for subcommand in ["serve", "health"] {
            let ran = folder.run(subcommand, &["--config", &config], &[]);
            let is_refused = subcommand == "health" || ran.stderr.contains("line ");
            assert!(ran.code == Some(1) && is_refused && !ran.stderr.contains("s3cr3t"), "{text}: {ran:?}");
        }
        fs::write(folder.path("accounts"), text).unwrap();
        let ran = folder.run("serve", &["--accounts", &folder.path("accounts")], &[]);
        assert!(ran.stderr.contains("not a valid account file") && !ran.stderr.contains("s3cr3t"), "{text}: {ran:?}");
    }
    // Unusable URLs, so that nothing waits for a connection.
    for url in [
        "postgres://me:s3cr3t@db/t?nonsense=1",
        "postgres://me:in@s3cr3t@db/t",
        "postgres://db/t?password=in@s3cr3t",
        "postgres://me@db/t?password=in&s3cr3t=1",
        "host=db password=s3cr3t",
    ] {
        let ran = folder.run("serve", &["--store", url], &[]);
        let is_warned = ran.stderr.contains("can read the password in --store");
        assert!(ran.code == Some(1) && is_warned && !ran.stderr.contains("s3cr3t"), "{url}: {ran:?}");
        let ran = folder.run("serve", &[], &[("ROWHOUSE_STORE", url)]);
        let is_warned = ran.stderr.contains("can read the password in --store");
        assert!(ran.code == Some(1) && !is_warned && !ran.stderr.contains("s3cr3t"), "{url}: {ran:?}");
        if url.starts_with("postgres") {
            let ran = folder.run("copy", &["--from", url, "--to", &folder.path("data")], &[]);
            let is_warned = ran.stderr.contains("can read the password in --from");
            assert!(ran.code == Some(1) && is_warned && !ran.stderr.contains("s3cr3t"), "{url}: {ran:?}");
        }
    }
}
