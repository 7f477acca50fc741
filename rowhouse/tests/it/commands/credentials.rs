//! Tests of `rowhouse accounts` and `rowhouse certificate`, and of how the commands choose a service and a credential.

use super::CommandTest;
use crate::PROGRAM;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use test_support::command::{CommandResult, Folder};
use test_support::{ACCOUNT, KEY, Server};

#[test]
fn every_way_to_name_a_service() {
    let test = CommandTest::new();
    test.prints(&["table", "create", "cars"]);
    test.prints(&["entity", "put", "cars", "p", "1"]);
    let endpoint = test.endpoint.as_str();
    let string = format!("AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={endpoint}");
    let wrong = "AccountName=x;AccountKey=AAECAwQFBgcICQoLDA0ODw==;TableEndpoint=http://127.0.0.1:1/x";
    std::fs::write(test.folder.path("string"), format!("{string}\n")).unwrap();
    std::fs::write(test.folder.path("key"), format!("{KEY}\n")).unwrap();
    let account = test.folder.run("sas", &["account", "--permissions", "rl", "--expiry", "1h"], &[]);
    let token = account.stdout.lines().find_map(|line| line.strip_prefix("token: ")).unwrap().to_owned();
    let with_token = format!("{endpoint}?{token}");
    for (arguments, environment) in [
        (&["--endpoint", endpoint][..], &[][..]),
        (&["--endpoint", endpoint], &[("ROWHOUSE_KEY", KEY), ("ROWHOUSE_CONNECTION_STRING", wrong)]),
        (&["--endpoint", endpoint, "--key-file", "key"], &[]),
        (&["--endpoint", &with_token], &[]),
        (&["--endpoint", endpoint], &[("ROWHOUSE_KEY", token.as_str())]),
        (&["--connection-string-file", "string"], &[("ROWHOUSE_CONNECTION_STRING", wrong)]),
        (&[], &[("ROWHOUSE_CONNECTION_STRING", string.as_str()), ("AZURE_STORAGE_CONNECTION_STRING", wrong)]),
        (&[], &[("AZURE_STORAGE_CONNECTION_STRING", string.as_str())]),
        (&[], &[("ROWHOUSE_ENDPOINT", endpoint)]),
    ] {
        let ran = test.folder.run("table", &[&["list"], arguments].concat(), environment);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "cars\n"), "{arguments:?} {environment:?}: {ran:?}");
    }
    // The URL of a signature for one table ends with the name of that table.
    let table = test.folder.run("sas", &["table", "cars", "--permissions", "r", "--expiry", "1h"], &[]);
    let url = table.stdout.lines().find_map(|line| line.strip_prefix("URL: ")).unwrap();
    let url = url.replace("http://127.0.0.1:10002", &format!("http://{}", test.server.address));
    let ran = test.folder.run("entity", &["count", "cars", "--endpoint", &url], &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1\n"), "{ran:?}");
    let ran = test.folder.run("entity", &["delete", "cars", "p", "1", "--endpoint", &url], &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("the shared access signature or the address"), "{ran:?}");
    assert!(!ran.stderr.contains("sig="), "{ran:?}");
}

#[test]
fn mistakes_are_explained_and_no_secret_is_shown() {
    let test = CommandTest::new();
    let endpoint = test.endpoint.as_str();
    let secret = "AAECAwQFBgcICQoLDA0ODw==";
    for (arguments, environment, told) in [
        (&["--endpoint", endpoint][..], &[("ROWHOUSE_KEY", secret)][..], "403 AuthenticationFailed"),
        (&["--endpoint", endpoint], &[("ROWHOUSE_KEY", "AAEC!")], "the value of ROWHOUSE_KEY or --key-file is neither"),
        (&["--endpoint", "https://orchard.table.example.net"], &[], "into the variable ROWHOUSE_KEY"),
        (&["--endpoint", "./data"], &[], "which is not a service: start a server for it with 'rowhouse serve'"),
        (&["--endpoint", endpoint, "--key-file", "nowhere"], &[], "reading --key-file"),
        (&["--connection-string-file", "nowhere"], &[], "reading --connection-string-file nowhere"),
        (
            &[],
            &[("ROWHOUSE_CONNECTION_STRING", "AccountKey=AAEC")],
            "the connection string of ROWHOUSE_CONNECTION_STRING names no account",
        ),
        (
            &[],
            &[("ROWHOUSE_CONNECTION_STRING", "AccountName=orchard;TableEndpoint=http://127.0.0.1:1/orchard")],
            "the account 'orchard' of ROWHOUSE_CONNECTION_STRING needs a key",
        ),
        (
            &[],
            &[("AZURE_STORAGE_CONNECTION_STRING", "ftp://h/x")],
            "AZURE_STORAGE_CONNECTION_STRING begins with 'ftp://'",
        ),
        (&[], &[("ROWHOUSE_ENDPOINT", "https://orchard.table.example.net")], "'orchard' of ROWHOUSE_ENDPOINT needs"),
        (
            &["--endpoint", "http://127.0.0.1:1/devstoreaccount1"],
            &[],
            "got no response: connecting failed: Connection refused (os error 111) (is a server running there? Start one \
             with 'rowhouse serve', or choose a different server with --endpoint)",
        ),
        (&["--endpoint", "127.0.0.1:10002"], &[], "begin it with http:// or https://"),
    ] {
        let ran = test.folder.run("table", &[&["list"], arguments].concat(), environment);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?} {environment:?}: {ran:?}");
        assert!(ran.stderr.contains(told) && !ran.stderr.contains("AAEC"), "{arguments:?} {environment:?}: {ran:?}");
    }
    let told = "(the key or signature does not belong to this account or has expired, or the clock of this machine is wrong)\n";
    let ran = test.folder.run("table", &["list", "--endpoint", endpoint], &[("ROWHOUSE_KEY", secret)]);
    assert!(ran.stderr.ends_with(told), "{ran:?}");
}

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
fn the_connection_string_of_an_account_is_complete() {
    let folder = PROGRAM.folder();
    done(&folder, &["new", "willow", "--file", "accounts.toml"]);
    done(&folder, &["new", "orchard", "--file", "accounts.toml"]);
    let all = keys(&fs::read_to_string(folder.path("accounts.toml")).unwrap());
    let of_orchard = ["connection-string", "orchard", "--file", "accounts.toml"];
    let printed = |options: &[&str]| done(&folder, &[&of_orchard[..], options].concat());
    let string = |protocol: &str, key: &str, endpoint: &str| {
        format!("DefaultEndpointsProtocol={protocol};AccountName=orchard;AccountKey={key};TableEndpoint={endpoint};\n")
    };
    assert_eq!(printed(&[]), string("http", &all[2], "http://127.0.0.1:10002/orchard"));
    let second = ["--key", "key2", "--endpoint", "https://tables.example.org/"];
    assert_eq!(printed(&second), string("https", &all[3], "https://tables.example.org/orchard"));
    let host = "https://orchard.table.example.org";
    assert_eq!(printed(&["--endpoint", host]), string("https", &all[2], host));

    // The server names the command for its own address, and shows no key.
    let accounts = folder.path("accounts.toml");
    let mut command = PROGRAM.serve(&["--in-memory", "--listen", "127.0.0.1:0", "--accounts", &accounts]);
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let hint = lines.map_while(Result::ok).find_map(|line| {
        Some(
            line.strip_prefix("connection string with the key: run 'rowhouse accounts ")?
                .strip_suffix('\'')?
                .to_owned(),
        )
    });
    let said = done(&folder, &hint.unwrap().split(' ').collect::<Vec<_>>());
    let used = [("ROWHOUSE_CONNECTION_STRING", said.trim())];
    let ran = folder.run("table", &["create", "cars"], &used);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains(";AccountName=orchard;"), "the first account by name: {said}");
    assert_eq!(ran.code, Some(0), "{ran:?}");
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
        (&["connection-string", "orchard", "--file", "missing.toml"], "the file missing.toml does not exist"),
        (&["connection-string", "willow", "--file", "accounts.toml"], "there is no account 'willow'"),
        (&["connection-string", "orchard", "--file", "broken.toml"], "line 4, column 1: unknown option 'key3'"),
        (
            &["connection-string", "orchard", "--file", "accounts.toml", "--endpoint", "tables.example.org"],
            "--endpoint 'tables.example.org' is not a valid URL",
        ),
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

fn server(folder: &Folder, certificate: &str, key: &str) -> Server {
    let (certificate, key) = (folder.path(certificate), folder.path(key));
    PROGRAM.start(&["--in-memory", "--tls-cert", &certificate, "--tls-key", &key])
}

fn ask(folder: &Folder, server: &Server, host: &str, trusted: &str) -> CommandResult {
    let url = format!("https://{}/devstoreaccount1", server.address.replace("127.0.0.1", host));
    folder.run("table", &["list", "--endpoint", &url], &[("SSL_CERT_FILE", &folder.path(trusted))])
}

#[test]
fn a_server_with_it_is_trusted_by_clients_that_have_the_file() {
    let folder = PROGRAM.folder();
    let ran = folder.run("certificate", &["tables.example", "192.0.2.7"], &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.contains("for localhost, 127.0.0.1, ::1, tables.example, 192.0.2.7,"), "{ran:?}");
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("key.pem"), mode("cert.pem")), (0o600, 0o644));
    let server = server(&folder, "cert.pem", "key.pem");
    for host in ["localhost", "127.0.0.1"] {
        let ran = ask(&folder, &server, host, "cert.pem");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{host}: {ran:?}");
    }
    let made = fs::read(folder.path("key.pem")).unwrap();
    let ran = folder.run("certificate", &["--cert", "other.pem"], &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("key.pem already exists: choose a different file"), "{ran:?}");
    assert_eq!(fs::read(folder.path("key.pem")).unwrap(), made);
    let ran = folder.run("certificate", &["a b", "--cert", "c", "--key", "k"], &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("neither a host name nor an IP address"), "{ran:?}");
    assert!(!fs::exists(folder.path("k")).unwrap());
}

#[test]
fn a_certificate_that_is_not_accepted_is_reported_at_once() {
    let folder = PROGRAM.folder();
    for name in ["cert", "other"] {
        let (cert, key) = (format!("{name}.pem"), format!("{name}.key"));
        assert_eq!(folder.run("certificate", &["--cert", &cert, "--key", &key], &[]).code, Some(0));
    }
    // Like the output of `openssl req -x509`.
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(folder.path("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(folder.path("ca.key"), key.serialize_pem()).unwrap();
    for (name, trusted, told) in [
        ("cert", "other.pem", "this machine does not trust the issuer of the server's certificate"),
        ("ca", "ca.pem", "make one with 'rowhouse certificate'"),
    ] {
        let server = server(&folder, &format!("{name}.pem"), &format!("{name}.key"));
        let ran = ask(&folder, &server, "localhost", trusted);
        assert!(ran.code == Some(1) && ran.stderr.contains(told), "{name}: {ran:?}");
        // Another attempt would fail in the same way.
        assert!(ran.stderr.contains("got no response: the TLS handshake failed"), "{name}: {ran:?}");
        assert!(!ran.stderr.contains("is a server running there?"), "{name}: {ran:?}");
        let from = format!("https://{}/devstoreaccount1", server.address.replace("127.0.0.1", "localhost"));
        let trusted = folder.path(trusted);
        let ran = folder.run("export", &["--from", &from, "--to", "out"], &[("SSL_CERT_FILE", &trusted)]);
        assert!(ran.code == Some(1) && ran.stderr.contains("got no response: the TLS"), "{name}: {ran:?}");
    }
}
