//! A server with the embedded engine that is killed.

use super::{Clients, Target, run_rounds};
use crate::PROGRAM;
use history::{Mix, StampOrder};
use std::thread;
use std::time::Duration;

const CLIENTS: usize = 16;
const MIX: Mix = Mix { partitions: 3, rows: 5, has_filters: true };
/// The minimum time until the server is killed, and the time until the second server is stopped. A random time of at
/// most the same length is added before the kill.
const WORK_MILLISECONDS: u64 = 1000;

#[test]
fn a_killed_server_is_strictly_serializable() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data", folder.path().to_str().unwrap()];
    run_rounds("embedded engine", |round, random| {
        let mut tally = super::Tally::default();
        let mut clients = Clients::new(format!("history{round}"), CLIENTS, MIX, random);
        let target = [Target::new(None)];
        let start = || {
            let server = PROGRAM.start(&arguments);
            target[0].address.write().unwrap().clone_from(&server.address);
            server
        };
        let server = start();
        clients.create_table(server.client());
        clients.work(&target, |_| {
            thread::sleep(Duration::from_millis(WORK_MILLISECONDS + random.below(WORK_MILLISECONDS)));
            server.kill9();
            tally.count("kills");
        });
        clients.recorder.close_unknown();
        let server = start();
        clients.work(&target, |progress| {
            thread::sleep(Duration::from_millis(WORK_MILLISECONDS));
            progress.wait_for_all();
        });
        clients.check(StampOrder::Partition, &mut tally);
        drop(server);
        tally
    });
}
