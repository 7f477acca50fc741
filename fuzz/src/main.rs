//! Fuzz targets for everything that reads bytes from the network, and for the log. The environment variable
//! `FUZZ_TARGET` chooses one. `seeds.json` contains the seeds of each target.

#![no_main]

use Input::{Bytes, Text};
use engine_embedded::fuzzing::{read_archive, read_lineage, read_log, read_payload};
use libfuzzer_sys::{Corpus, fuzz_target};
use std::sync::LazyLock;

mod bodies;
mod credentials;
mod requests;
mod standby;

// What the standby's protocol takes from the server.
extern crate self as server;
pub const REPLICATION_PATH: &str = "/";

enum Input {
    Bytes(fn(&[u8])),
    Text(fn(&str)),
}

// One line for each target: scripts/fuzz.sh reads the names.
const TARGETS: &[(&str, Input)] = &[
    ("acl", Bytes(bodies::acl)),
    ("archive", Bytes(read_archive)),
    ("atom", Bytes(bodies::atom)),
    ("batch", Bytes(bodies::batch)),
    ("change_positions", Text(requests::change_positions)),
    ("continuation", Text(requests::continuation)),
    ("filter", Text(requests::filter)),
    ("json", Bytes(bodies::json)),
    ("jwks", Bytes(credentials::jwks)),
    ("jwt", Text(credentials::jwt)),
    ("lineage", Text(read_lineage)),
    ("log", Bytes(read_log)),
    ("negotiation", Text(requests::negotiation)),
    ("payload", Bytes(read_payload)),
    ("query_options", Text(requests::query_options)),
    ("responses", Bytes(bodies::responses)),
    ("sas", Text(credentials::sas)),
    ("service_properties", Bytes(bodies::service_properties)),
    ("signing", Text(credentials::signing)),
    ("standby", Bytes(standby::protocol)),
    ("standby_data", Bytes(standby::data)),
    ("table_indexes", Bytes(bodies::table_indexes)),
    ("table_retention", Bytes(bodies::table_retention)),
    ("target", Text(requests::target)),
    ("user_delegation", Bytes(credentials::user_delegation)),
];

static TARGET: LazyLock<&Input> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    TARGETS.iter().find(|(other, _)| *other == name).map(|(_, target)| target).expect("FUZZ_TARGET names a target")
});

fuzz_target!(|data: &[u8]| -> Corpus {
    match *TARGET {
        Bytes(run) => run(data),
        Text(run) => match std::str::from_utf8(data) {
            Ok(text) => run(text),
            Err(_) => return Corpus::Reject,
        },
    }
    Corpus::Keep
});
