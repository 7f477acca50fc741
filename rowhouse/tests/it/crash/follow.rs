//! Power losses of the disk with the files of `rowhouse follow`.

use super::SEED;
use super::power_loss::lose_power;
use super::simulated_disk::SimulatedDisk;
use crate::PROGRAM;
use test_support::Random;
use test_support::command::{endpoint, wait_for_exit};

const ROUNDS: usize = 4;

#[test]
fn positions_and_dead_letters_survive() {
    let server = PROGRAM.start(&["--in-memory", "--keep-log", "1h"]);
    let mut client = server.client();
    for name in ["orders", "invoices", "payments"] {
        let body = format!("{{\"TableName\":\"{name}\"}}");
        assert_eq!(client.request("POST", "/Tables", &[], body.as_bytes()).status, 201);
    }
    let endpoint = endpoint(&server.address);
    let mut random = Random::from_environment(SEED);
    for round in 0..ROUNDS {
        let disk = SimulatedDisk::recorded(random.number());
        let [before, left] = ["before", "left"].map(|name| disk.path(name));
        std::fs::create_dir(&before).unwrap();
        let [state, dead] = ["state", "dead"].map(|name| disk.data.join(name).to_str().unwrap().to_owned());
        let delivery = ["--from", "start", "--until-end", "--exec", "exit 1", "--attempts", "1"];
        let files = ["--state", &state, "--dead-letters", &dead];
        let environment = [("ROWHOUSE_ENDPOINT", endpoint.as_str()), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
        let folder = PROGRAM.folder();
        let mut follow = folder.command("follow", &[&delivery[..], &files].concat(), &environment);
        disk.simulate_for(&mut follow);
        let ran = wait_for_exit(follow.spawn().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        lose_power(&before, &disk.data, disk.log(), &left, &mut random);
        for name in ["state", "dead"] {
            let [seen, kept] = [&disk.data, &left].map(|folder| std::fs::read_to_string(folder.join(name)).ok());
            assert!(seen.is_some(), "{name}: {ran:?}");
            assert_eq!(seen, kept, "{name} in round {round}");
        }
    }
}
