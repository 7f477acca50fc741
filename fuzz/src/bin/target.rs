//! Request targets: a resource parsed from a path can be written as a URL path, and parses back from it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::uri::{write_entity_address, write_table_address};
use wire::{Resource, Target};

// The first line is the host; the rest is the path.
fuzz_target!(|text: &str| {
    let (host, path) = text.split_once('\n').unwrap_or(("127.0.0.1", text));
    let target = Target::parse(host, path, &["tables.example.net".to_owned()]);
    let raw_path = if path.is_empty() { "/" } else { path };
    assert_eq!(target.raw_path, raw_path, "the path must be kept unchanged");
    assert!(raw_path.starts_with(target.base_path));
    assert_eq!(target.signed_paths().next().as_deref(), Some(raw_path));
    match target.resource() {
        Ok(Resource::Entity { table, partition, row }) if is_plain(&table) => {
            let address = written(|out| write_entity_address(out, &table, &partition, &row));
            assert_eq!(read(&address), Resource::Entity { table, partition, row }, "{address}");
        }
        Ok(Resource::Table(table)) if is_plain(&table) => {
            let address = written(|out| write_table_address(out, &table));
            assert_eq!(read(&address), Resource::Table(table), "{address}");
        }
        Ok(_) | Err(_) => {}
    }
});

/// Returns true if a table name consists of letters and digits, like the names of all existing tables, and therefore
/// needs no escapes in a URL.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn written(write: impl Fn(&mut Vec<u8>)) -> String {
    let mut address = b"/acct/".to_vec();
    write(&mut address);
    String::from_utf8(address).expect("addresses are ASCII")
}

fn read(address: &str) -> Resource<'_> {
    Target::parse("127.0.0.1", address, &[]).resource().expect("a written address is valid")
}
