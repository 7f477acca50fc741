use crate::support::*;
use engine::{Engine, TableKey};
use model::service_properties::{Logging, RetentionDays};
use model::{AccountName, MetricsTable, ServiceProperties, ServicePropertiesUpdate, TableName};
use std::sync::Arc;

/// Tests that an engine restores its in-memory state when `open` opens it again.
pub async fn survives_a_restart(open: impl AsyncFn() -> Arc<dyn Engine>) {
    let (one, two) = (AccountName::new(ACCOUNT).unwrap(), AccountName::new("account2").unwrap());
    let logging = Logging { read: true, retention: RetentionDays::new(5), ..Logging::default() };
    let logged = ServicePropertiesUpdate { logging: Some(logging), ..ServicePropertiesUpdate::default() };

    let engine = open().await;
    engine.update_service_properties(&one, cors_update("https://b.example")).await.unwrap();
    engine.update_service_properties(&one, cors_update("https://a.example")).await.unwrap();
    engine.update_service_properties(&one, logged.clone()).await.unwrap();
    engine.create_table(&table("abc")).await.unwrap();
    let metrics = TableKey { name: TableName::from_metrics_table(MetricsTable::MinutePrimary), ..table("any") };
    engine.create_table(&metrics).await.unwrap();
    engine.close().await.unwrap();
    drop(engine);

    let engine = open().await;
    let expected = ServiceProperties::default().updated(cors_update("https://a.example")).updated(logged);
    assert_eq!(*engine.service_properties(&one).unwrap(), expected);
    assert_eq!(*engine.service_properties(&two).unwrap(), ServiceProperties::default());
    assert!(engine.table(&table("abc")).await.unwrap().is_some());
    assert!(engine.table(&metrics).await.unwrap().is_some());
}
