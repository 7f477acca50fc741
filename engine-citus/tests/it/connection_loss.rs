//! Tests with database connections that break at a chosen point of a transaction. If a connection breaks before the
//! commit is sent, the caller must not notice. If it breaks afterwards, the engine must report neither success nor
//! failure.

use engine::{CommitError, Engine, Fault};
use engine_contract::support::*;
use engine_postgres::PostgresOptions;
use model::{Condition, Mutation};
use rowhouse_engine_citus::{Balance, open as open_database};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;
use test_support::cluster::Cluster;

/// The row key in a transaction whose connection must break.
const MARK: &str = "marked-row";
/// The property that a merge adds. It is sent with the commit, but not with the preceding read.
const WRITTEN: &str = "written-by-merge";
/// Break when the mark is first sent: the transaction reads.
const AT_READ: u8 = 1;
/// Break when the call that commits is sent, and do not forward it.
const BEFORE_COMMIT: u8 = 2;
/// Forward the call, and break before the response.
const AFTER_COMMIT: u8 = 3;

struct Proxy {
    url: String,
    plan: Arc<AtomicU8>,
    broken: mpsc::Receiver<()>,
}

impl Proxy {
    fn start(database: &str) -> Self {
        let (head, rest) = database.split_once('@').unwrap();
        let (server, name) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{head}@{}/{name}?sslmode=disable", listener.local_addr().unwrap());
        let (plan, (sender, broken)) = (Arc::new(AtomicU8::new(0)), mpsc::channel());
        let (server, plans) = (server.to_owned(), Arc::clone(&plan));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                let (back, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || pass(back, to));
                let (plans, sender) = (Arc::clone(&plans), sender.clone());
                thread::spawn(move || watch(client, server, &plans, &sender));
            }
        });
        Self { url, plan, broken }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _broken = std::io::copy(&mut from, &mut to);
    let _gone = to.shutdown(Shutdown::Both);
}

fn watch(mut client: TcpStream, mut server: TcpStream, plan: &AtomicU8, broken: &mpsc::Sender<()>) {
    let (mut sent, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let bytes = buffer.get(..count).unwrap();
        let planned = plan.load(Ordering::SeqCst);
        if planned == 0 {
            sent.clear();
        } else {
            sent.extend_from_slice(bytes);
        }
        let mark = find(&sent, MARK.as_bytes());
        let commit = find(&sent, WRITTEN.as_bytes());
        let is_due = if planned == AT_READ { mark.is_some() } else { planned != 0 && commit.is_some() };
        if is_due {
            plan.store(0, Ordering::SeqCst);
            let _unheard = client.shutdown(Shutdown::Read);
            if planned == AFTER_COMMIT {
                let _gone = client.shutdown(Shutdown::Both);
                server.write_all(bytes).unwrap();
                // The database closes the connection after it has executed what it received.
                server.shutdown(Shutdown::Write).unwrap();
                let _broken = std::io::copy(&mut server, &mut std::io::sink());
            }
            let _gone = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            broken.send(()).unwrap();
            return;
        }
        if server.write_all(bytes).is_err() {
            break;
        }
    }
    let _gone = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_break_before_the_commit_is_retried_and_one_after_it_is_reported_as_unknown() {
    let Some(cluster) = Cluster::shared() else { return };
    let proxy = Proxy::start(&cluster.database());
    let options = PostgresOptions::new(proxy.url.clone(), 2);
    let engine = open_database(&options, Balance::Off, ManualClock::at(START_TICKS)).await.unwrap();
    let (table, marked) = (table("Broken"), key("p", MARK));
    engine.create_table(&table).await.unwrap();
    for round in 1..=3 {
        commit_one(&engine, &table, upsert("p", MARK, 0)).await.unwrap();
        for (plan, is_stored) in [(AT_READ, true), (BEFORE_COMMIT, false), (AFTER_COMMIT, true)] {
            let value_now = round * 10 + i64::from(plan);
            let before = value(&engine.get(&table, &marked).await.unwrap().unwrap());
            proxy.plan.store(plan, Ordering::SeqCst);
            let properties = properties(&[("value", value_now), (WRITTEN, 1)]);
            let merge = Mutation::Merge { key: key("p", MARK), properties, condition: Condition::Any };
            let result = commit_one(&engine, &table, merge).await;
            proxy.broken.recv_timeout(TIMEOUT).expect("the connection was broken");
            match plan {
                AT_READ => drop(result.unwrap()),
                _ => assert!(matches!(result, Err(CommitError::Fault(Fault::Unknown(_)))), "{plan}: {result:?}"),
            }
            let mut after = value(&engine.get(&table, &marked).await.unwrap().unwrap());
            let began = Instant::now();
            // A commit that was forwarded may still be in progress.
            while plan == AFTER_COMMIT && after == before {
                assert!(began.elapsed() < TIMEOUT, "the database does not commit the transaction that it received");
                after = value(&engine.get(&table, &marked).await.unwrap().unwrap());
            }
            assert_eq!(after, if is_stored { value_now } else { before }, "plan {plan}");
        }
    }
}
