//! The worst known requests, while ordinary clients of another account work. However the requests arrive, the server
//! uses no more memory than the sum of `--cache-mib`, `--body-mib` and 150 MB, every request of the ordinary clients
//! succeeds, little is logged, and acknowledged writes survive a kill.
//!
//! Each test performs one kind of attack, and prints the server's peak resident memory. Linux only: memory is read from
//! `/proc`.

#![cfg(target_os = "linux")]

pub(crate) mod attacker;
mod connections;
mod ordinary;
mod requests;
mod responses;
pub(crate) mod scene;
mod sequence;
mod traffic;

use attacker::Attacker;
use scene::Scene;
use test_support::Random;

pub(crate) fn prepare(attacker: &Attacker) {
    responses::fill_with_tiny_entities(attacker);
    responses::fill_with_long_keys(attacker);
}

/// Performs a random attack, even on a server whose disk fails or that has stopped. Resources of the attack, such as
/// connections, are held until `wait` returns.
pub(crate) fn attack(attacker: &Attacker, random: &mut Random, wait: impl FnOnce()) {
    let kind = random.below(15);
    println!("attack {kind}");
    match kind {
        0 => responses::read_with_a_long_host(attacker),
        1 => responses::read_long_keys(attacker),
        2 => responses::read_absent_properties(attacker),
        3 => responses::echo_a_long_host(attacker),
        4 => hold(&responses::leave_pages_unread(attacker), wait),
        5 => hold(&responses::leave_growing_batches_unread(attacker), wait),
        6 => hold(&responses::read_byte_by_byte(attacker), wait),
        7 => hold(&connections::announce_bodies(attacker), wait),
        8 => hold(&connections::send_tiny_chunks(attacker), wait),
        9 => hold(&connections::send_almost_complete_bodies(attacker), wait),
        10 => hold(&connections::send_endless_heads(attacker), wait),
        11 => hold(&connections::open_connections(attacker), wait),
        12 => hold(&connections::pipeline(attacker), wait),
        13 => hold(&connections::send_refused_bodies(attacker), wait),
        _ => {
            let kinds = [requests::filters, requests::strange_heads, requests::anonymous];
            let mut requests = kinds[random.index(kinds.len())](attacker);
            let chosen = requests.swap_remove(random.index(requests.len()));
            requests::exchange_each(attacker, vec![chosen]);
        }
    }
}

fn hold<T>(_: &T, wait: impl FnOnce()) {
    wait();
}

#[test]
fn ordinary_clients_alone() {
    Scene::start(&[]).withstand(|_| ());
}
