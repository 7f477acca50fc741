//! Random entities of all types, as lines that an import reads.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use test_support::Random;

pub(crate) const SEED: &str = "ROWHOUSE_FILES_SEED";

const NAMES: [&str; 9] = ["Zeta", "alpha", "Mid", "_x", "Ünïcode_名", "N1", "N2", "N3", "Last"];

pub(crate) fn lines(random: &mut Random, count: u64) -> String {
    let mut keys = BTreeSet::new();
    for _ in 0..count {
        // Only ASCII, because such keys sort by their bytes. Other keys are tested where the order does not matter.
        keys.insert((key(random), key(random)));
    }
    let mut lines = String::new();
    for (partition, row) in keys {
        let _ = write!(lines, "{{\"PartitionKey\":{},\"RowKey\":{}", json(&partition), json(&row));
        let mut names = NAMES.to_vec();
        for _ in 0..random.below(NAMES.len() as u64) {
            let name = names.swap_remove(random.index(names.len()));
            let (edm_type, value) = value(random);
            if let Some(edm_type) = edm_type {
                let _ = write!(lines, ",{}:\"Edm.{edm_type}\"", json(&format!("{name}@odata.type")));
            }
            let _ = write!(lines, ",{}:{value}", json(name));
        }
        lines.push_str("}\n");
    }
    lines
}

fn key(random: &mut Random) -> String {
    let alphabet = b"ab'\"%&+, =<>0";
    (0..random.below(3)).map(|_| char::from(alphabet[random.index(13)])).collect()
}

fn text(random: &mut Random) -> String {
    let alphabet = ['a', ',', '"', '\n', '\r', ' ', '\u{0}', 'é', '\u{FEFF}', '\u{FFFD}', '\u{1F600}', ';', '\'', '\\'];
    (0..random.below(6)).map(|_| alphabet[random.index(14)]).collect()
}

/// Formats a string as rowhouse writes it in JSON: everything except printable ASCII is escaped.
fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn value(random: &mut Random) -> (Option<&'static str>, String) {
    match random.below(8) {
        0 => (None, json(&text(random))),
        1 => (None, ["true", "false"][usize::from(random.below(2) == 0)].to_owned()),
        2 => (None, i32::from_ne_bytes(random.number().to_ne_bytes()[..4].try_into().unwrap()).to_string()),
        3 => (Some("Int64"), format!("\"{}\"", random.number().cast_signed())),
        4 => (Some("Binary"), ["\"\"", "\"AP8HAA==\"", "\"LCIK\""][random.index(3)].to_owned()),
        5 => {
            let ticks = random.below(10_000_000);
            (Some("DateTime"), format!("\"{:04}-02-28T23:59:59.{ticks:07}Z\"", 1601 + random.below(8398)))
        }
        6 => {
            let bits = random.number();
            (Some("Guid"), format!("\"{:08x}-0000-4000-8000-{:012x}\"", bits >> 32, bits & 0xFFFF_FFFF_FFFF))
        }
        _ => (Some("Double"), double(random)),
    }
}

fn double(random: &mut Random) -> String {
    match random.below(6) {
        0 => "\"NaN\"".to_owned(),
        1 => "\"-Infinity\"".to_owned(),
        2 => "-0.0".to_owned(),
        3 => "5.0".to_owned(),
        _ => match f64::from_bits(random.number()) {
            finite if finite.is_finite() => format!("{finite:e}"),
            _ => "\"Infinity\"".to_owned(),
        },
    }
}
