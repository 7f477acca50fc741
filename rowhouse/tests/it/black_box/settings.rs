//! Tests that unsafe, contradictory or broken settings are refused at startup, with a message that explains what to do.

use super::tls::{self, Pair, write_pair};
use super::{ACCOUNT, Folder, account_file, client, key, list, refusal, start};
use crate::PROGRAM;
use test_support::KEY;

const NETWORK: [&str; 3] = ["0.0.0.0:0", "[::]:0", "192.0.2.1:10002"];

#[test]
fn the_development_key_is_not_served_to_the_network() {
    let folder = Folder::new();
    let Pair { certificate, key: private, .. } = write_pair(&folder);
    let tls = ["--tls-cert", &certificate, "--tls-key", &private];
    let accounts = folder.write("accounts", &account_file(ACCOUNT, &key(1), KEY));
    let in_environment = format!("{ACCOUNT}:{KEY}");
    for listen in NETWORK {
        let arguments = [&["--listen", listen], &tls[..]].concat();
        let own_name = [&arguments[..], &["--accounts", &accounts]].concat();
        let plain = ["--listen", listen, "--allow-plain-http-on-network"];
        for message in [
            refusal(&arguments, &[]),
            refusal(&own_name, &[]),
            refusal(&arguments, &[("ROWHOUSE_ACCOUNT_KEYS", &in_environment)]),
            refusal(&plain, &[]),
        ] {
            assert!(message.contains("refusing to serve"), "{message}");
            for way_out in ["--accounts FILE", "127.0.0.1", "--allow-development-key-on-network"] {
                assert!(message.contains(way_out), "{way_out}: {message}");
            }
            assert!(!message.contains("Eby8"), "{message}");
        }
    }
}

#[test]
fn plain_http_is_not_served_to_the_network() {
    let folder = Folder::new();
    let accounts = folder.write("accounts", &account_file(ACCOUNT, &key(1), &key(2)));
    for listen in NETWORK {
        for more in [&["--accounts", &accounts][..], &["--allow-development-key-on-network"]] {
            let message = refusal(&[&["--listen", listen], more].concat(), &[]);
            assert!(message.contains("refusing to serve"), "{message}");
            for way_out in ["--tls-cert FILE --tls-key FILE", "127.0.0.1", "--allow-plain-http-on-network"] {
                assert!(message.contains(way_out), "{way_out}: {message}");
            }
        }
    }
}

#[test]
fn safe_or_explicitly_allowed_settings_are_served_to_the_network() {
    let folder = Folder::new();
    let Pair { certificate, key: private, trusted } = write_pair(&folder);
    let accounts = folder.write("accounts", &account_file(ACCOUNT, &key(1), &key(2)));
    let network = ["--listen", "0.0.0.0:0", "--accounts", &accounts];

    let safe = start(&[&network[..], &["--tls-cert", &certificate, "--tls-key", &private]].concat());
    assert_eq!(list(&mut tls::connect(&safe.address, &trusted, &key(1)).unwrap()), 200);
    let plain = start(&[&network[..], &["--allow-plain-http-on-network"]].concat());
    assert_eq!(list(&mut client(&plain, &key(2))), 200);
    start(&["--listen", "0.0.0.0:0", "--allow-plain-http-on-network", "--allow-development-key-on-network"]);
    // The same as settings in the environment and in a file.
    let file = folder.write("rowhouse.toml", "listen = \"0.0.0.0:0\"\nallow-development-key-on-network = true\n");
    // An option would override the address in the file.
    let mut command = PROGRAM.serve(&["--in-memory", "--config", &file]);
    test_support::Server::spawn(command.env("ROWHOUSE_ALLOW_PLAIN_HTTP_ON_NETWORK", "true"), false);
}

#[test]
fn a_flag_that_is_set_to_false_allows_nothing() {
    let flags = ["--listen", "0.0.0.0:0", "--allow-plain-http-on-network"];
    let message = refusal(&[&flags[..], &["--allow-development-key-on-network=false"]].concat(), &[]);
    assert!(message.contains("development account's key"), "{message}");
}

#[test]
fn certificates_and_keys_that_cannot_be_used_are_refused() {
    let folder = Folder::new();
    let Pair { certificate, key: private, .. } = write_pair(&folder);
    let missing = folder.path("missing");
    for (arguments, part) in [
        (&["--tls-cert", &certificate][..], "add --tls-key FILE"),
        (&["--tls-key", &private], "add --tls-cert FILE"),
        (&["--tls-cert", &missing, "--tls-key", &private], "No such file"),
        (&["--tls-cert", &private, "--tls-key", &certificate], "no readable certificate"),
    ] {
        let message = refusal(&[&["--listen", "127.0.0.1:0"], arguments].concat(), &[]);
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn accounts_that_are_given_twice_or_not_at_all_are_refused() {
    let folder = Folder::new();
    let accounts = folder.write("accounts", &account_file(ACCOUNT, &key(1), &key(2)));
    let keys = format!("{ACCOUNT}:{}", key(3));
    let message = refusal(&["--accounts", &accounts], &[("ROWHOUSE_ACCOUNT_KEYS", &keys)]);
    assert!(message.contains("--accounts FILE or the variable"), "{message}");
    let broken = folder.write("broken", &account_file(ACCOUNT, &key(1), "short"));
    let empty = folder.write("empty", "");
    let missing = folder.path("missing");
    for (path, part) in [(&broken, "Base64"), (&empty, "no account"), (&missing, "No such file")] {
        let message = refusal(&["--accounts", path], &[]);
        assert!(message.contains(path) && message.contains(part), "{message}");
        assert!(!message.contains(&key(1)), "{message}");
    }
}

#[test]
fn no_option_takes_a_secret() {
    for flag in ["--account-keys", "--account-key", "--key"] {
        assert!(refusal(&[flag, "orchard:AAAA"], &[]).contains("unexpected argument"));
    }
}
