//! What every engine holds about service properties.

mod support;

use model::service_properties::{Logging, Metrics, MetricsLevel};
use model::{AccountName, CorsRule, CorsRules, ServiceProperties, ServicePropertiesUpdate};
use std::sync::Arc;
use store::{Durability, Embedded, EmbeddedOptions, Engine, Fault, Memory};
use support::{ManualClock, START_TICKS, insert, table};

fn account(name: &str) -> AccountName {
    AccountName::new(name).unwrap()
}

fn cors(origin: &str) -> ServicePropertiesUpdate {
    let rule = CorsRule::new(origin, "GET", "x-ms-*", "", 60).unwrap();
    ServicePropertiesUpdate { cors: Some(CorsRules::new(vec![rule]).unwrap()), ..ServicePropertiesUpdate::default() }
}

fn logging() -> ServicePropertiesUpdate {
    let logging = Logging { write: true, ..Logging::default() };
    ServicePropertiesUpdate { logging: Some(logging), ..ServicePropertiesUpdate::default() }
}

async fn on_every_engine<F: Future<Output = ()>>(
    memory: impl FnOnce(Arc<Memory<ManualClock>>) -> F,
    embedded: impl AsyncFn(Arc<Embedded>),
) {
    memory(Arc::new(Memory::new(ManualClock::at(START_TICKS)))).await;
    for durability in [Durability::Sync, Durability::Interval(std::time::Duration::from_millis(50))] {
        let folder = tempfile::tempdir().unwrap();
        let options = EmbeddedOptions { durability, ..EmbeddedOptions::default() };
        embedded(Arc::new(Embedded::open(folder.path(), &options, ManualClock::at(START_TICKS)).unwrap())).await;
    }
}

async fn sections_are_replaced_alone<E: Engine>(engine: Arc<E>) {
    let (one, two) = (account("account1"), account("account2"));
    assert_eq!(*engine.service_properties(&one).unwrap(), ServiceProperties::default());
    engine.update_service_properties(&one, logging()).await.unwrap();
    engine.update_service_properties(&one, cors("https://a.example")).await.unwrap();
    let expected = ServiceProperties::default().updated(logging()).updated(cors("https://a.example"));
    assert_eq!(*engine.service_properties(&one).unwrap(), expected);
    assert_eq!(*engine.service_properties(&two).unwrap(), ServiceProperties::default());
    let cleared = ServicePropertiesUpdate { cors: Some(CorsRules::default()), ..ServicePropertiesUpdate::default() };
    engine.update_service_properties(&one, cleared).await.unwrap();
    assert_eq!(*engine.service_properties(&one).unwrap(), ServiceProperties::default().updated(logging()));
    engine.close().await.unwrap();
    assert!(matches!(engine.service_properties(&one), Err(Fault::Closed)));
    assert!(matches!(engine.update_service_properties(&one, logging()).await, Err(Fault::Closed)));
}

#[tokio::test]
async fn an_update_replaces_the_sections_it_has_for_its_account() {
    on_every_engine(sections_are_replaced_alone, sections_are_replaced_alone).await;
}

async fn nothing_is_lost<E: Engine>(engine: Arc<E>) {
    let one = account("account1");
    engine.create_table(&table("busy")).await.unwrap();
    let metrics = Metrics { level: MetricsLevel::Service, retention: None };
    let updates = [
        logging(),
        cors("*"),
        ServicePropertiesUpdate { hour_metrics: Some(metrics), ..ServicePropertiesUpdate::default() },
        ServicePropertiesUpdate { minute_metrics: Some(metrics), ..ServicePropertiesUpdate::default() },
    ];
    let expected = updates.iter().fold(ServiceProperties::default(), |so_far, update| so_far.updated(update.clone()));
    let mut tasks = tokio::task::JoinSet::new();
    for (index, update) in updates.into_iter().enumerate() {
        let (engine, one) = (Arc::clone(&engine), one.clone());
        tasks.spawn(async move {
            engine.update_service_properties(&one, update).await.unwrap();
            let row = format!("r{index}");
            support::commit_one(&*engine, &table("busy"), insert("p", &row, 1)).await.unwrap();
        });
    }
    tasks.join_all().await;
    assert_eq!(*engine.service_properties(&one).unwrap(), expected);
    assert_eq!(support::all(&*engine, &table("busy")).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_different_sections_at_a_time_take_nothing_back() {
    on_every_engine(nothing_is_lost, nothing_is_lost).await;
}

#[tokio::test]
async fn properties_are_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Embedded::open(folder.path(), &EmbeddedOptions::default(), ManualClock::at(START_TICKS)).unwrap();
    let (one, two) = (account("account1"), account("account2"));
    let engine = open();
    engine.update_service_properties(&one, cors("https://a.example")).await.unwrap();
    engine.update_service_properties(&one, logging()).await.unwrap();
    engine.create_table(&table("abc")).await.unwrap();
    engine.close().await.unwrap();
    drop(engine);
    let engine = open();
    let expected = ServiceProperties::default().updated(cors("https://a.example")).updated(logging());
    assert_eq!(*engine.service_properties(&one).unwrap(), expected);
    assert_eq!(*engine.service_properties(&two).unwrap(), ServiceProperties::default());
    assert!(engine.table(&table("abc")).await.unwrap().is_some());
}
