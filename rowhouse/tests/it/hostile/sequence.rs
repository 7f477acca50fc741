//! Attacks that follow each other without a pause, and the idle period after them.

use super::attacker::Attacker;
use super::scene::{CACHE_MIB, MIB, Scene, memory_bytes_max, peak_bytes, resident_bytes};
use super::{connections, responses};
use crate::PROGRAM;
use std::time::{Duration, Instant};
use std::{fs, thread};
use test_support::TIMEOUT;

/// The maximum resident memory when there are no more requests: the cache, and 100 MB for everything else.
const IDLE_BYTES_MAX: u64 = CACHE_MIB * MIB + 100_000_000;
/// `--body-mib` for tests that measure only memory. It is so small that ordinary clients may get 503, and that memory
/// leaked by attacks exceeds the bound before their bodies do.
const BODY_MIB: u64 = 16;
/// How long each attack holds its resources.
const HELD: Duration = Duration::from_millis(500);
const ROUNDS: usize = 2;

fn attack_in_sequence(attacker: &Attacker) {
    for _ in 0..ROUNDS {
        responses::read_with_a_long_host(attacker);
        responses::read_long_keys(attacker);
        hold(connections::send_almost_complete_bodies(attacker));
        responses::read_absent_properties(attacker);
        hold(responses::leave_pages_unread(attacker));
        hold(connections::send_endless_heads(attacker));
        hold(responses::leave_growing_batches_unread(attacker));
        responses::echo_a_long_host(attacker);
        hold(connections::send_refused_bodies(attacker));
        hold(responses::read_byte_by_byte(attacker));
    }
}

fn hold<T>(held: T) {
    thread::sleep(HELD);
    drop(held);
}

#[test]
fn attacks_that_follow_each_other() {
    let scene = Scene::start(&[]);
    super::prepare(&scene.attacker);
    scene.withstand(attack_in_sequence);
}

#[test]
fn memory_is_given_back_between_attacks_and_after_them() {
    let scene = Scene::start_with_bodies(BODY_MIB, &[]);
    super::prepare(&scene.attacker);
    attack_in_sequence(&scene.attacker);
    let (peak, max) = (peak_bytes(scene.id()) / MIB, memory_bytes_max(BODY_MIB) / MIB);
    println!("{peak} MiB peak resident memory, {max} allowed");
    assert!(peak <= max, "{peak} MiB were resident, which is more than {max} MiB");
    let ended = Instant::now();
    let resident = || resident_bytes(scene.id());
    println!("resident: {} MiB when the attacks stopped", resident() / MIB);
    while resident() > IDLE_BYTES_MAX {
        assert!(ended.elapsed() < TIMEOUT, "{} MiB are still resident without requests", resident() / MIB);
        thread::sleep(Duration::from_millis(100));
    }
    println!("resident: {} MiB after {} ms", resident() / MIB, ended.elapsed().as_millis());
}

#[test]
fn settings_of_the_allocator_are_added_unless_they_are_there() {
    let server = PROGRAM.start_with(&["--in-memory"], |command| _ = command.env("MIMALLOC_PURGE_DELAY", "50"));
    let environment = fs::read_to_string(format!("/proc/{}/environ", server.id())).unwrap();
    let settings: Vec<_> = environment.split('\0').filter(|variable| variable.starts_with("MIMALLOC_")).collect();
    assert_eq!(settings, ["MIMALLOC_ALLOW_THP=0", "MIMALLOC_PURGE_DELAY=50"]);
}
