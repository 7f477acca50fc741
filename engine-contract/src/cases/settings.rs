use crate::support::*;
use engine::{CatalogError, Engine, ReadError};
use model::limits::RETENTION_SECONDS_MAX;
use model::{Retention, TableSettings, TableSettingsUpdate};
use std::sync::Arc;

pub fn retain(retention: Option<Retention>) -> TableSettingsUpdate {
    TableSettingsUpdate { retention: Some(retention), ..TableSettingsUpdate::default() }
}

pub fn other() -> engine::TableKey {
    table("Other")
}

fn settings(retention: Option<Retention>) -> TableSettings {
    TableSettings { retention, ..TableSettings::default() }
}

pub async fn settings_are_changed_one_by_one_and_seen_at_once(engine: Arc<dyn Engine>, _: ManualClock) {
    engine.create_table(&table("Kept")).await.unwrap();
    engine.create_table(&table("Other")).await.unwrap();
    engine.set_policies(&table("Kept"), super::policies::policies(&["a"])).await.unwrap();
    assert_eq!(engine.settings(&table("Kept")).await.unwrap(), TableSettings::default());
    let property = Retention::by_property(&"é".repeat(255), RETENTION_SECONDS_MAX);
    for retention in [Retention::by_age(RETENTION_SECONDS_MAX), property, None, Retention::by_property("Ends", 0)] {
        engine.update_settings(&table("KEPT"), retain(retention.clone())).await.unwrap();
        assert_eq!(engine.settings(&table("kept")).await.unwrap(), settings(retention.clone()));
        engine.update_settings(&table("Kept"), TableSettingsUpdate::default()).await.unwrap();
        assert_eq!(engine.settings(&table("kept")).await.unwrap(), settings(retention), "an update of nothing");
    }
    assert_eq!(engine.settings(&table("Other")).await.unwrap(), TableSettings::default());
    assert_eq!(engine.table(&table("kept")).await.unwrap().unwrap().as_str(), "Kept", "the spelling is preserved");
    assert_eq!(engine.policies(&table("Kept")).await.unwrap(), super::policies::policies(&["a"]));
    engine.set_policies(&table("Kept"), super::policies::policies(&[])).await.unwrap();
    let kept = engine.settings(&table("Kept")).await.unwrap();
    assert_eq!(kept, settings(Retention::by_property("Ends", 0)), "policies are changed separately");
}

pub async fn settings_go_with_their_table(engine: Arc<dyn Engine>, _: ManualClock) {
    let (table, retention) = (table("Kept"), Retention::by_age(60));
    assert!(matches!(engine.settings(&table).await, Err(ReadError::TableNotFound)));
    engine.create_table(&table).await.unwrap();
    engine.update_settings(&table, retain(retention.clone())).await.unwrap();
    engine.delete_table(&table).await.unwrap();
    assert!(matches!(engine.settings(&table).await, Err(ReadError::TableNotFound)));
    assert!(matches!(engine.update_settings(&table, retain(retention)).await, Err(CatalogError::NotFound)));
    engine.create_table(&table).await.unwrap();
    assert_eq!(engine.settings(&table).await.unwrap(), TableSettings::default());
}
