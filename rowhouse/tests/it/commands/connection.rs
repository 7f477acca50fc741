//! Tests of how the commands choose a service and a credential.

use super::CommandTest;
use test_support::{ACCOUNT, KEY};

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
            "is a server running there? Start one with 'rowhouse serve'",
        ),
    ] {
        let ran = test.folder.run("table", &[&["list"], arguments].concat(), environment);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?} {environment:?}: {ran:?}");
        assert!(ran.stderr.contains(told) && !ran.stderr.contains("AAEC"), "{arguments:?} {environment:?}: {ran:?}");
    }
    let told = "(the key or signature does not belong to this account or has expired, or the clock of this machine is wrong)\n";
    let ran = test.folder.run("table", &["list", "--endpoint", endpoint], &[("ROWHOUSE_KEY", secret)]);
    assert!(ran.stderr.ends_with(told), "{ran:?}");
}
