//! A consistency test under load: clerks move amounts between the entities of one partition in transactions, while
//! auditors read pages, and the server is killed repeatedly with `kill -9`. No page may ever show a different sum.

use crate::PROGRAM;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use test_support::bank::{AUDITS, Clerk, Progress, audit, check_sums, open_bank, reconcile_all};
use test_support::{Random, Server, eventually};

const ROUNDS: u64 = 4;
const CLERKS: u64 = 5;
const AUDITORS: usize = 2;
/// The minimum time that the clerks work before the server is killed, in milliseconds. A random time of at most the
/// same length is added.
const WORK_MILLISECONDS: u64 = 600;
const SEED: &str = "ROWHOUSE_CONSISTENCY_SEED";

#[test]
fn no_page_shows_a_part_of_a_transaction() {
    let mut random = Random::from_environment(SEED);
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data", folder.path().to_str().unwrap()];
    let mut clerks: Vec<_> = (0..CLERKS).map(|number| Clerk::new(number, random.number())).collect();
    let (progress, pages) = (Progress::of(&clerks), AtomicU64::new(0));
    for round in 0..ROUNDS {
        let server = PROGRAM.start(&arguments);
        let mut client = server.client();
        if round == 0 {
            open_bank(&mut client);
        }
        check_sums(&mut client);
        reconcile_all(&mut clerks, &mut client);
        let milliseconds = WORK_MILLISECONDS + random.below(WORK_MILLISECONDS);
        work_and_crash(server, &mut clerks, &progress, &pages, milliseconds);
    }
    let server = PROGRAM.start(&arguments);
    let mut client = server.client();
    check_sums(&mut client);
    reconcile_all(&mut clerks, &mut client);
    let done: u64 = clerks.iter().map(|clerk| clerk.done).sum();
    let refused: u64 = clerks.iter().map(|clerk| clerk.refused).sum();
    let pages = pages.into_inner();
    println!("{done} transactions, {refused} refused, {pages} pages");
    assert!(done > ROUNDS && pages > ROUNDS, "clerks and auditors made no progress");
}

fn work_and_crash(server: Server, clerks: &mut [Clerk], progress: &Progress, pages: &AtomicU64, milliseconds: u64) {
    let address = server.address.clone();
    let is_open = AtomicBool::new(true);
    thread::scope(|scope| {
        let (address, is_open) = (address.as_str(), &is_open);
        for clerk in clerks {
            scope.spawn(move || {
                clerk.work(address);
                assert!(!is_open.load(Ordering::SeqCst), "the server exited before it was killed");
            });
        }
        for auditor in 0..AUDITORS {
            scope.spawn(move || audit(address, AUDITS[auditor % AUDITS.len()], pages));
        }
        let read = pages.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(milliseconds));
        // On a busy machine, this takes longer.
        progress.wait(2);
        eventually("pages", || (pages.load(Ordering::Relaxed) > read + 1).then_some(()));
        is_open.store(false, Ordering::SeqCst);
        server.kill9();
    });
}
