//! The worst requests known, beside ordinary clients of another account. However they come, the server takes no more memory
//! than `--cache-mib`, `--body-mib` and 150 MB, every request of the ordinary clients succeeds, little is logged, and
//! what was acknowledged is there after a kill.
//!
//! Each test is one kind of attack, and prints the most memory that was resident. Linux only: memory is read from `/proc`.

mod connections;
mod ordinary;
mod requests;
mod responses;
mod scene;
mod traffic;

use scene::Scene;

#[test]
fn ordinary_clients_alone() {
    Scene::start(&[]).withstand(|_| ());
}
