use crate::support::*;
use engine::{CatalogError, CommitError, Engine, EngineExt, Fault, ReadError, TableQuery};
use model::AccountName;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub async fn every_call_after_close_answers_closed(engine: Arc<dyn Engine>, _: ManualClock) {
    let (table, account) = (table("Entities"), AccountName::new(ACCOUNT).unwrap());
    engine.create_table(&table).await.unwrap();
    commit_one(&*engine, &table, insert("p", "r", 1)).await.unwrap();
    engine.close().await.unwrap();
    assert!(matches!(engine.create_table(&table).await, Err(CatalogError::Fault(Fault::Closed))));
    assert!(matches!(engine.delete_table(&table).await, Err(CatalogError::Fault(Fault::Closed))));
    assert!(matches!(engine.table(&table).await, Err(Fault::Closed)));
    assert!(matches!(engine.list_tables(&account, "", 1).await, Err(Fault::Closed)));
    let query = TableQuery { filter: None, from: String::new(), limit: 1 };
    assert!(matches!(engine.table_page(&account, query).await, Err(Fault::Closed)));
    assert!(matches!(engine.accounts().await, Err(Fault::Closed)));
    assert!(matches!(engine.policies(&table).await, Err(ReadError::Fault(Fault::Closed))));
    assert!(matches!(engine.policies_in_effect(&table).await, Err(ReadError::Fault(Fault::Closed))));
    let set = engine.set_policies(&table, super::policies::policies(&["a"])).await;
    assert!(matches!(set, Err(CatalogError::Fault(Fault::Closed))));
    assert!(matches!(engine.settings(&table).await, Err(ReadError::Fault(Fault::Closed))));
    let set = engine.update_settings(&table, super::settings::retain(None)).await;
    assert!(matches!(set, Err(CatalogError::Fault(Fault::Closed))));
    assert!(matches!(engine.indexes(&table).await, Err(ReadError::Fault(Fault::Closed))));
    assert!(matches!(engine.get(&table, &key("p", "r")).await, Err(ReadError::Fault(Fault::Closed))));
    let scan = engine.scan(&table, scan_all(), CollectingSink::default()).await;
    assert!(matches!(scan, Err(ReadError::Fault(Fault::Closed))));
    let commit = commit_one(&*engine, &table, insert("p", "r2", 1)).await;
    assert!(matches!(commit, Err(CommitError::Fault(Fault::Closed))));
    assert!(matches!(engine.service_properties(&account), Err(Fault::Closed)));
    let update = engine.update_service_properties(&account, cors_update("*")).await;
    assert!(matches!(update, Err(Fault::Closed)));
    assert!(matches!(engine.close().await, Err(Fault::Closed)));
}

pub async fn commits_on_their_way_are_answered_when_the_engine_closes(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = table("Entities");
    engine.create_table(&table).await.unwrap();
    let (mut tasks, commits) = (Vec::new(), Arc::<AtomicUsize>::default());
    for task in 0..32 {
        let (engine, table, commits) = (Arc::clone(&engine), table.clone(), Arc::clone(&commits));
        tasks.push(tokio::spawn(async move {
            for n in 0.. {
                match commit_one(&*engine, &table, upsert(&task.to_string(), "r", n)).await {
                    Ok(_) => _ = commits.fetch_add(1, Ordering::SeqCst),
                    Err(CommitError::Fault(Fault::Closed)) => return,
                    Err(other) => panic!("{other:?}"),
                }
            }
        }));
    }
    let began = Instant::now();
    while commits.load(Ordering::SeqCst) < 32 {
        assert!(began.elapsed() < TIMEOUT, "the commits make no progress");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    engine.close().await.unwrap();
    for task in tasks {
        tokio::time::timeout(TIMEOUT, task).await.expect("no call is left waiting").unwrap();
    }
}
