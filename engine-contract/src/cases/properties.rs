use crate::support::*;
use engine::Engine;
use model::service_properties::{Logging, Metrics, MetricsLevel};
use model::{AccountName, CorsRules, ServiceProperties, ServicePropertiesUpdate};
use std::sync::Arc;

fn account(name: &str) -> AccountName {
    AccountName::new(name).unwrap()
}

fn logging() -> ServicePropertiesUpdate {
    let logging = Logging { write: true, ..Logging::default() };
    ServicePropertiesUpdate { logging: Some(logging), ..ServicePropertiesUpdate::default() }
}

pub async fn an_update_replaces_the_sections_it_has(engine: Arc<dyn Engine>, _: ManualClock) {
    let (one, two) = (account(ACCOUNT), account("account2"));
    assert_eq!(*engine.service_properties(&one).unwrap(), ServiceProperties::default());
    engine.update_service_properties(&one, logging()).await.unwrap();
    engine.update_service_properties(&one, cors_update("https://a.example")).await.unwrap();
    let expected = ServiceProperties::default().updated(logging()).updated(cors_update("https://a.example"));
    assert_eq!(*engine.service_properties(&one).unwrap(), expected);
    assert_eq!(*engine.service_properties(&two).unwrap(), ServiceProperties::default());
    let cleared = ServicePropertiesUpdate { cors: Some(CorsRules::default()), ..ServicePropertiesUpdate::default() };
    engine.update_service_properties(&one, cleared).await.unwrap();
    assert_eq!(*engine.service_properties(&one).unwrap(), ServiceProperties::default().updated(logging()));
}

pub async fn a_new_account_has_the_initial_properties(engine: Arc<dyn Engine>, _: ManualClock) {
    let (one, two) = (account(ACCOUNT), account("account2"));
    engine.set_default_properties(ServiceProperties::with_hourly_metrics());
    assert_eq!(*engine.service_properties(&one).unwrap(), ServiceProperties::with_hourly_metrics());
    engine.update_service_properties(&one, cors_update("https://a.example")).await.unwrap();
    let expected = ServiceProperties::with_hourly_metrics().updated(cors_update("https://a.example"));
    assert_eq!(*engine.service_properties(&one).unwrap(), expected, "an omitted section keeps its value");
    assert_eq!(*engine.service_properties(&two).unwrap(), ServiceProperties::with_hourly_metrics());
    engine.set_default_properties(ServiceProperties::default());
    assert_eq!(*engine.service_properties(&one).unwrap(), expected);
    assert_eq!(*engine.service_properties(&two).unwrap(), ServiceProperties::default());
}

pub async fn updates_of_different_sections_are_all_kept(engine: Arc<dyn Engine>, _: ManualClock) {
    let one = account(ACCOUNT);
    engine.create_table(&table("busy")).await.unwrap();
    let metrics = Metrics { level: MetricsLevel::Service, retention: None };
    let updates = [
        logging(),
        cors_update("*"),
        ServicePropertiesUpdate { hour_metrics: Some(metrics), ..ServicePropertiesUpdate::default() },
        ServicePropertiesUpdate { minute_metrics: Some(metrics), ..ServicePropertiesUpdate::default() },
    ];
    let expected = updates.iter().fold(ServiceProperties::default(), |so_far, update| so_far.updated(update.clone()));
    let mut tasks = tokio::task::JoinSet::new();
    for (index, update) in updates.into_iter().enumerate() {
        let (engine, one) = (Arc::clone(&engine), one.clone());
        tasks.spawn(async move {
            commit_one(&*engine, &table("busy"), insert("p", &format!("before{index}"), 1)).await.unwrap();
            engine.update_service_properties(&one, update).await.unwrap();
            commit_one(&*engine, &table("busy"), insert("p", &format!("after{index}"), 1)).await.unwrap();
        });
    }
    tasks.join_all().await;
    assert_eq!(*engine.service_properties(&one).unwrap(), expected);
    assert_eq!(all(&*engine, &table("busy")).await.len(), 8);
}
