//! Attacks that follow each other without a pause, and the rest after them.

use super::attacker::Attacker;
use super::scene::{CACHE_MIB, MIB, Scene, resident_bytes};
use super::{connections, responses};
use std::thread;
use std::time::{Duration, Instant};
use test_support::TIMEOUT;

/// What may be resident when there are no more requests: the cache, and 100 MB for everything else.
const IDLE_BYTES_MAX: u64 = CACHE_MIB * MIB + 100_000_000;
/// How long each attack holds what it holds.
const HELD: Duration = Duration::from_millis(500);
const ROUNDS: usize = 2;

/// Every attack that takes much memory, one after the other.
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

fn prepared() -> Scene {
    let scene = Scene::start(&[]);
    super::prepare(&scene.attacker);
    scene
}

#[test]
fn attacks_that_follow_each_other() {
    prepared().withstand(attack_in_sequence);
}

#[test]
fn memory_is_given_back_after_attacks() {
    let scene = prepared();
    attack_in_sequence(&scene.attacker);
    let ended = Instant::now();
    let resident = || resident_bytes(scene.id());
    println!("resident: {} MiB when the attacks ended", resident() / MIB);
    while resident() > IDLE_BYTES_MAX {
        assert!(ended.elapsed() < TIMEOUT, "{} MiB stay resident without requests", resident() / MIB);
        thread::sleep(Duration::from_millis(100));
    }
    println!("resident: {} MiB after {} ms", resident() / MIB, ended.elapsed().as_millis());
}
