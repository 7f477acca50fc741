//! Tests of accounts and keys that change while the server runs (07 §8).

use super::client::{ACCOUNT, Client, Request, account_file, key};
use super::process::{Folder, Server};
use super::tls::{Pair, write_pair};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use test_support::TIMEOUT;

const TAKEN: &str = "accounts: reloaded";
const KEPT: &str = "accounts: not reloaded";

fn start(folder: &Folder, accounts: &str) -> Server {
    let path = folder.write("accounts", accounts);
    Server::start(&["--listen", "127.0.0.1:0", "--accounts", &path], &[])
}

fn change(server: &Server, folder: &Folder, accounts: &str, expected: &str) {
    let start = server.log().len();
    folder.replace("accounts", accounts);
    server.wait_for_log(start, expected);
}

fn status(server: &Server, key: &str) -> u16 {
    Client::plain(server.address).send(Request::list_tables(key)).status
}

struct Load {
    key: AtomicU8,
    is_over: AtomicBool,
    answered: Vec<AtomicU64>,
}

impl Load {
    fn new(clients: usize, key: u8) -> Self {
        let answered = (0..clients).map(|_| AtomicU64::new(0)).collect();
        Self { key: AtomicU8::new(key), is_over: AtomicBool::new(false), answered }
    }

    /// Each request of the client must succeed, on one connection.
    fn run(&self, client: usize, address: SocketAddr) {
        let mut connection = Client::plain(address);
        let path = format!("/{ACCOUNT}/apples(PartitionKey='p',RowKey='{client}')");
        while !self.is_over.load(SeqCst) {
            let key = key(self.key.load(SeqCst));
            let get = Request { method: "GET", path: &path, body: "", key: &key };
            for (request, expected) in [(Request::upsert(&path, &key), 204), (get, 200)] {
                let answer = connection.send(request);
                assert_eq!(answer.status, expected, "{answer:?}");
            }
            self.answered[client].fetch_add(2, SeqCst);
        }
    }

    fn progress(&self) {
        let counts = || self.answered.iter().map(|count| count.load(SeqCst)).collect::<Vec<_>>();
        let (before, begun) = (counts(), Instant::now());
        while counts().iter().zip(&before).any(|(now, before)| *now < before + 10) {
            assert!(begun.elapsed() < TIMEOUT, "{before:?} {:?}", counts());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Stops the load even if a check fails, so that the failure is reported.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn both_keys_are_replaced_under_load_without_a_failed_request() {
    const CLIENTS: usize = 4;
    let folder = Folder::new();
    let server = start(&folder, &account_file(ACCOUNT, &key(1), &key(2)));
    assert_eq!(Client::plain(server.address).send(Request::create_table(&key(1))).status, 201);
    let load = Load::new(CLIENTS, 1);
    std::thread::scope(|scope| {
        let end = End(&load.is_over);
        let address = server.address;
        let clients: Vec<_> = (0..CLIENTS).map(|client| (client, &load)).collect();
        let clients: Vec<_> =
            clients.into_iter().map(|(client, load)| scope.spawn(move || load.run(client, address))).collect();
        load.progress();
        for round in 0..2 {
            let (first, second, new) = (1 + 2 * round, 2 + 2 * round, 4 + 2 * round);
            assert_eq!(status(&server, &key(second)), 200);
            change(&server, &folder, &account_file(ACCOUNT, &key(first), &key(new)), TAKEN);
            assert_eq!(status(&server, &key(second)), 403, "a removed key is refused immediately");
            load.progress();
            load.key.store(new, SeqCst);
            load.progress();
            let newest = 3 + 2 * round;
            change(&server, &folder, &account_file(ACCOUNT, &key(newest), &key(new)), TAKEN);
            assert_eq!(status(&server, &key(first)), 403);
            load.progress();
            load.key.store(newest, SeqCst);
            load.progress();
        }
        drop(end);
        for client in clients {
            client.join().unwrap();
        }
    });
}

#[test]
fn a_request_under_way_finishes_although_its_key_is_removed() {
    let folder = Folder::new();
    let server = start(&folder, &account_file(ACCOUNT, &key(1), &key(2)));
    let mut client = Client::plain(server.address);
    let (old, new) = (key(1), key(2));
    let request = Request::create_table(&old);
    client.send_head(request);
    change(&server, &folder, &account_file(ACCOUNT, &key(3), &key(2)), TAKEN);
    assert_eq!(client.send_body(request).status, 201);
    assert_eq!(
        client.send(Request::list_tables(&old)).status,
        403,
        "the next request on the same connection is refused"
    );
    assert_eq!(client.send(Request::list_tables(&new)).status, 200);
}

#[test]
fn accounts_are_added_and_removed_and_a_broken_file_changes_nothing() {
    let folder = Folder::new();
    let server = start(&folder, &account_file("willow", &key(1), &key(2)));
    assert_eq!(status(&server, &key(3)), 403);
    let both = account_file("willow", &key(1), &key(2)) + &account_file(ACCOUNT, &key(3), &key(4));
    change(&server, &folder, &both, TAKEN);
    assert_eq!((status(&server, &key(3)), status(&server, &key(4)), status(&server, &key(1))), (200, 200, 403));

    let twice = account_file(ACCOUNT, &key(5), &key(5)) + &account_file(ACCOUNT, &key(5), &key(5));
    let key_for_name = account_file(&key(5), &key(5), &key(5));
    let unquoted = format!("[[account]]\nname = \"{ACCOUNT}\"\nkey1 = {}\n", key(5));
    let short = account_file(ACCOUNT, &key(5), "AAAA");
    for broken in ["", &twice, &key_for_name, &unquoted, &short] {
        change(&server, &folder, broken, KEPT);
        assert_eq!((status(&server, &key(3)), status(&server, &key(5))), (200, 403), "{broken}");
    }
    let start = server.log().len();
    std::fs::remove_file(folder.path("accounts")).unwrap();
    server.wait_for_log(start, "No such file");
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
    let start = server.log().len();
    folder.write("accounts", &account_file(ACCOUNT, &key(3), &key(2)));
    server.wait_for_log(start, TAKEN);
    assert_eq!((status(&server, &key(1)), status(&server, &key(3))), (403, 200));
    // On SIGHUP, the file is read even if it has not changed, and the log reports that.
    for _ in 0..2 {
        let start = server.log().len();
        server.signal("HUP");
        server.wait_for_log(start, TAKEN);
    }
    assert_eq!(status(&server, &key(3)), 200);
}

#[test]
fn the_development_key_is_not_accepted_by_a_reload() {
    const DEVELOPMENT_KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    let folder = Folder::new();
    let accounts = folder.write("accounts", &account_file(ACCOUNT, &key(1), &key(2)));
    let Pair { certificate, key: private, trusted } = write_pair(&folder);
    let arguments =
        ["--listen", "0.0.0.0:0", "--accounts", &accounts, "--tls-cert", &certificate, "--tls-key", &private];
    let server = Server::start(&arguments, &[]);
    change(&server, &folder, &account_file(ACCOUNT, &key(1), DEVELOPMENT_KEY), KEPT);
    assert!(server.log().contains("--allow-development-key-on-network"), "{}", server.log());
    let mut client = Client::tls(server.address, &trusted).unwrap();
    assert_eq!(client.send(Request::list_tables(DEVELOPMENT_KEY)).status, 403);
    assert_eq!(client.send(Request::list_tables(&key(2))).status, 200);
}
