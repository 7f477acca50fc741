//! Tests of accounts and keys that change while the server runs (07 §8).

use super::tls::{Pair, write_pair};
use super::{ACCOUNT, Folder, account_file, client, key, list, tls};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use test_support::{Account, Client, EndOnDrop, KEY, Server, eventually};

const TAKEN: &str = "accounts: reloaded";
const KEPT: &str = "accounts: not reloaded";

fn start(folder: &Folder, accounts: &str) -> Server {
    let path = folder.write("accounts", accounts);
    super::start(&["--accounts", &path])
}

fn change(server: &Server, folder: &Folder, accounts: &str, expected: &str) {
    server.new_log();
    folder.replace("accounts", accounts);
    server.wait_for_log(expected);
}

fn status(server: &Server, key: &str) -> u16 {
    list(&mut client(server, key))
}

struct Load {
    account: Account,
    is_over: AtomicBool,
    answered: [AtomicU64; 4],
}

impl Load {
    /// Each request of the client must succeed, on one connection.
    fn run(&self, number: usize, address: &str) {
        let mut client = Client::connect_as(address, &self.account).unwrap();
        let path = format!("/apples(PartitionKey='p',RowKey='{number}')");
        while !self.is_over.load(SeqCst) {
            for (method, expected) in [("PUT", 204), ("GET", 200)] {
                let answer = client.request(method, &path, &[], b"{}");
                assert_eq!(answer.status, expected, "{answer:?}");
            }
            self.answered[number].fetch_add(2, SeqCst);
        }
    }

    fn progress(&self) {
        let counts = || self.answered.iter().map(|count| count.load(SeqCst)).collect::<Vec<_>>();
        let before = counts();
        eventually("requests of each client", || {
            counts().iter().zip(&before).all(|(now, before)| *now >= before + 10).then_some(())
        });
    }
}

#[test]
fn both_keys_are_replaced_under_load_without_a_failed_request() {
    let folder = Folder::new();
    let server = start(&folder, &account_file(ACCOUNT, &key(1), &key(2)));
    test_support::content::create_table(&mut client(&server, &key(1)), "apples");
    let account = Account::new(ACCOUNT, &key(1));
    let load = Load { account, is_over: AtomicBool::default(), answered: Default::default() };
    std::thread::scope(|scope| {
        let _end = EndOnDrop(&load.is_over);
        for number in 0..load.answered.len() {
            let (load, address) = (&load, &server.address);
            scope.spawn(move || load.run(number, address));
        }
        load.progress();
        for round in 0..2 {
            let (first, second, new) = (1 + 2 * round, 2 + 2 * round, 4 + 2 * round);
            assert_eq!(status(&server, &key(second)), 200);
            change(&server, &folder, &account_file(ACCOUNT, &key(first), &key(new)), TAKEN);
            assert_eq!(status(&server, &key(second)), 403, "a removed key is refused immediately");
            load.progress();
            load.account.change_key(key(new));
            load.progress();
            let newest = 3 + 2 * round;
            change(&server, &folder, &account_file(ACCOUNT, &key(newest), &key(new)), TAKEN);
            assert_eq!(status(&server, &key(first)), 403);
            load.progress();
            load.account.change_key(key(newest));
            load.progress();
        }
    });
}

#[test]
fn a_request_under_way_finishes_although_its_key_is_removed() {
    let folder = Folder::new();
    let server = start(&folder, &account_file(ACCOUNT, &key(1), &key(2)));
    let account = Account::new(ACCOUNT, &key(1));
    let mut client = server.client_of(&account);
    let body = br#"{"TableName":"apples"}"#;
    let headers = [("Content-Length", "22"), ("Expect", "100-continue")];
    client.send(account.head("POST", "/Tables", &headers).as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().status, 100, "the credential was checked");
    change(&server, &folder, &account_file(ACCOUNT, &key(3), &key(2)), TAKEN);
    client.send(body).unwrap();
    assert_eq!(client.receive().unwrap().status, 201);
    assert_eq!(list(&mut client), 403, "the next request on the same connection is refused");
    account.change_key(key(2));
    assert_eq!(list(&mut client), 200);
}

#[test]
fn accounts_are_added_and_removed_and_a_broken_file_changes_nothing() {
    let folder = Folder::new();
    let server = start(&folder, &account_file("willow", &key(1), &key(2)));
    assert_eq!(status(&server, &key(3)), 403);
    let both = account_file("willow", &key(1), &key(2)) + &account_file(ACCOUNT, &key(3), &key(4));
    change(&server, &folder, &both, TAKEN);
    assert_eq!((status(&server, &key(3)), status(&server, &key(4)), status(&server, &key(1))), (200, 200, 403));

    let twice = account_file(ACCOUNT, &key(5), &key(5)).repeat(2);
    for broken in ["", &twice] {
        change(&server, &folder, broken, KEPT);
        assert_eq!((status(&server, &key(3)), status(&server, &key(5))), (200, 403), "{broken}");
    }
    std::fs::remove_file(folder.path("accounts")).unwrap();
    server.wait_for_log("No such file");
    assert_eq!(status(&server, &key(3)), 200);

    change(&server, &folder, &account_file("willow", &key(1), &key(2)), TAKEN);
    assert_eq!(status(&server, &key(3)), 403, "the account no longer exists");
    let log = server.log();
    assert!((1..=5).all(|number| !log.contains(&key(number))), "{log}");
}

#[test]
fn a_file_that_is_written_in_place_is_read_again_and_sighup_reads_at_once() {
    let folder = Folder::new();
    let server = start(&folder, &account_file(ACCOUNT, &key(1), &key(2)));
    folder.write("accounts", &account_file(ACCOUNT, &key(3), &key(2)));
    server.wait_for_log(TAKEN);
    assert_eq!((status(&server, &key(1)), status(&server, &key(3))), (403, 200));
    // On SIGHUP, the file is read even if it has not changed, and the log reports that.
    for _ in 0..2 {
        server.signal("HUP");
        server.wait_for_log(TAKEN);
    }
    assert_eq!(status(&server, &key(3)), 200);
}

#[test]
fn the_development_key_is_not_accepted_by_a_reload() {
    let folder = Folder::new();
    let accounts = folder.write("accounts", &account_file(ACCOUNT, &key(1), &key(2)));
    let Pair { certificate, key: private, trusted } = write_pair(&folder);
    let arguments =
        ["--listen", "0.0.0.0:0", "--accounts", &accounts, "--tls-cert", &certificate, "--tls-key", &private];
    let server = super::start(&arguments);
    change(&server, &folder, &account_file(ACCOUNT, &key(1), KEY), KEPT);
    assert!(server.log().contains("--allow-development-key-on-network"), "{}", server.log());
    for (key, status) in [(KEY, 403), (&key(2), 200)] {
        assert_eq!(list(&mut tls::connect(&server.address, &trusted, key).unwrap()), status);
    }
}
