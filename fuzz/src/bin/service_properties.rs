//! Service properties: accepted properties that are written as the service writes them read back unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::ServiceProperties;
use wire::Version;
use wire::service_properties::{read, write};

fuzz_target!(|document: &[u8]| {
    for text in ["2012-02-12", "2019-02-02"] {
        let version = Version::parse(text).expect("the version is known");
        let Ok(update) = read(document, version) else { continue };
        let properties = ServiceProperties::default().updated(update);
        let again = read(&write(&properties, version), version).expect("the service must accept its own output");
        assert_eq!(ServiceProperties::default().updated(again), properties);
    }
});
