//! What the embedded engine has in memory is there again after a restart.

#![allow(clippy::unwrap_used, reason = "a failure is a failed test")]

mod support;

use model::service_properties::{Logging, RetentionDays};
use model::{AccountName, ServiceProperties, ServicePropertiesUpdate};
use store::{Embedded, EmbeddedOptions, Engine};
use support::*;

#[tokio::test]
async fn service_properties_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Embedded::open(folder.path(), &EmbeddedOptions::default(), ManualClock::at(START_TICKS)).unwrap();
    let (one, two) = (AccountName::new(ACCOUNT).unwrap(), AccountName::new("account2").unwrap());
    let logging = Logging { read: true, retention: RetentionDays::new(5), ..Logging::default() };
    let logged = ServicePropertiesUpdate { logging: Some(logging), ..ServicePropertiesUpdate::default() };

    let engine = open();
    engine.update_service_properties(&one, cors_update("https://b.example")).await.unwrap();
    engine.update_service_properties(&one, cors_update("https://a.example")).await.unwrap();
    engine.update_service_properties(&one, logged.clone()).await.unwrap();
    engine.create_table(&table("abc")).await.unwrap();
    engine.close().await.unwrap();
    drop(engine);

    let engine = open();
    let expected = ServiceProperties::default().updated(cors_update("https://a.example")).updated(logged);
    assert_eq!(*engine.service_properties(&one).unwrap(), expected);
    assert_eq!(*engine.service_properties(&two).unwrap(), ServiceProperties::default());
    assert!(engine.table(&table("abc")).await.unwrap().is_some());
}
