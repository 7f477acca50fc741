use crate::support::*;
use engine::{CatalogError, CommitError, Engine, EngineExt, ReadError, TableKey, TableQuery};
use model::filter::{Comparison, Literal, Operator, PropertyName};
use model::{AccountName, Condition, Filter, MetricsTable, Mutation, TableName, Transaction};
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn listed(engine: &dyn Engine, account: &str, from: &str, limit: usize) -> Vec<String> {
    let tables = engine.list_tables(&AccountName::new(account).unwrap(), from, limit).await.unwrap();
    tables.iter().map(|name| name.as_str().to_owned()).collect()
}

pub async fn a_table_is_found_in_any_case_and_keeps_its_spelling(engine: Arc<dyn Engine>, _: ManualClock) {
    engine.create_table(&table("MyTable")).await.unwrap();
    for name in ["MyTable", "mytable", "MYTABLE"] {
        assert_eq!(engine.table(&table(name)).await.unwrap().unwrap().as_str(), "MyTable");
    }
    commit_one(&*engine, &table("mYtAbLe"), insert("p", "r", 1)).await.unwrap();
    assert_eq!(names(&all(&*engine, &table("MYTABLE")).await), ["p/r"]);
    assert!(engine.table(&table("MyTable2")).await.unwrap().is_none());
}

pub async fn a_table_is_created_once_and_deleted_once(engine: Arc<dyn Engine>, _: ManualClock) {
    engine.create_table(&table("Abc")).await.unwrap();
    assert!(matches!(engine.create_table(&table("aBC")).await, Err(CatalogError::AlreadyExists)));
    engine.delete_table(&table("ABC")).await.unwrap();
    assert!(matches!(engine.delete_table(&table("Abc")).await, Err(CatalogError::NotFound)));
    engine.create_table(&table("aBC")).await.unwrap();
    assert_eq!(engine.table(&table("abc")).await.unwrap().unwrap().as_str(), "aBC", "the new spelling counts");
}

pub async fn tables_are_listed_in_order_from_a_name_on(engine: Arc<dyn Engine>, _: ManualClock) {
    for name in ["beta", "Alpha", "gamma", "ALPHA2", "Beta1"] {
        engine.create_table(&table(name)).await.unwrap();
    }
    assert_eq!(listed(&*engine, ACCOUNT, "", 10).await, ["Alpha", "ALPHA2", "beta", "Beta1", "gamma"]);
    assert_eq!(listed(&*engine, ACCOUNT, "", 2).await, ["Alpha", "ALPHA2"]);
    assert_eq!(listed(&*engine, ACCOUNT, "beta", 2).await, ["beta", "Beta1"]);
    assert_eq!(listed(&*engine, ACCOUNT, "beta0", 10).await, ["Beta1", "gamma"]);
    assert!(listed(&*engine, ACCOUNT, "h", 10).await.is_empty());
    assert!(listed(&*engine, ACCOUNT, "", 0).await.is_empty());
    engine.delete_table(&table("alpha2")).await.unwrap();
    assert_eq!(listed(&*engine, ACCOUNT, "alpha2", 10).await, ["beta", "Beta1", "gamma"]);
}

pub async fn a_page_of_tables_ends_at_its_limit_and_names_the_next_match(engine: Arc<dyn Engine>, _: ManualClock) {
    for name in ["beta", "Alpha", "gamma", "ALPHA2", "Beta1"] {
        engine.create_table(&table(name)).await.unwrap();
    }
    let compare = |operator, name: &str| {
        let (property, literal) = (PropertyName::new("TableName"), Literal::String(name.into()));
        Filter::Compare(Comparison { property, operator, literal })
    };
    let upper = compare(Operator::GreaterThanOrEqual, "alpha2");
    let two = Filter::Or(vec![compare(Operator::Equal, "BETA"), compare(Operator::Equal, "gamma")]);
    let (none, some) = (Filter::Constant(false), Some(&upper));
    let all = ["Alpha", "ALPHA2", "beta", "Beta1", "gamma"];
    for (filter, from, limit, tables, next) in [
        (None, "", 5, &all[..], None),
        (None, "", 2, &all[..2], Some("beta")),
        (None, "beta", 2, &all[2..4], Some("gamma")),
        (None, "", 0, &[], Some("Alpha")),
        (None, "h", 5, &[], None),
        (some, "", 5, &all[1..], None),
        (some, "", 0, &[], Some("ALPHA2")),
        (some, "beta0", 5, &all[3..], None),
        (Some(&two), "", 1, &["beta"], Some("gamma")),
        (Some(&two), "", 2, &["beta", "gamma"], None),
        (Some(&none), "", 5, &[], None),
    ] {
        let query = TableQuery { filter, from: from.to_owned(), limit };
        let page = engine.table_page(&AccountName::new(ACCOUNT).unwrap(), query.clone()).await.unwrap();
        let found: Vec<_> = page.tables.iter().map(TableName::as_str).collect();
        assert_eq!((&found[..], page.next.as_ref().map(TableName::as_str)), (tables, next), "{query:?}");
    }
}

pub async fn metrics_tables_are_like_others_but_not_listed(engine: Arc<dyn Engine>, _: ManualClock) {
    let metrics = TableKey { name: TableName::from_metrics_table(MetricsTable::HourPrimary), ..table("any") };
    assert!(engine.table(&metrics).await.unwrap().is_none());
    engine.create_table(&metrics).await.unwrap();
    engine.create_table(&table("Alpha")).await.unwrap();
    assert!(matches!(engine.create_table(&metrics).await, Err(CatalogError::AlreadyExists)));
    commit_one(&*engine, &metrics, insert("p", "r", 1)).await.unwrap();
    assert_eq!(names(&all(&*engine, &metrics).await), ["p/r"]);
    assert_eq!(engine.table(&metrics).await.unwrap().unwrap().as_str(), "$MetricsHourPrimaryTransactionsTable");
    for from in ["", "$", "a"] {
        assert_eq!(listed(&*engine, ACCOUNT, from, 10).await, ["Alpha"], "{from}");
    }
    assert_eq!(engine.count_tables(&metrics.account).await.unwrap(), 1);
}

pub async fn accounts_do_not_see_each_other(engine: Arc<dyn Engine>, _: ManualClock) {
    let (mine, other) = (table_of("account1", "Shared"), table_of("account2", "Shared"));
    engine.create_table(&mine).await.unwrap();
    assert!(engine.table(&other).await.unwrap().is_none());
    engine.create_table(&other).await.unwrap();
    commit_one(&*engine, &mine, insert("p", "mine", 1)).await.unwrap();
    commit_one(&*engine, &other, insert("p", "other", 1)).await.unwrap();
    assert_eq!(names(&all(&*engine, &mine).await), ["p/mine"]);
    engine.delete_table(&mine).await.unwrap();
    assert_eq!(names(&all(&*engine, &other).await), ["p/other"]);
    assert!(listed(&*engine, "account1", "", 10).await.is_empty());
    assert_eq!(listed(&*engine, "account2", "", 10).await, ["Shared"]);
    engine.create_table(&table_of("account2", "More")).await.unwrap();
    let counts =
        (engine.count_tables(&mine.account).await.unwrap(), engine.count_tables(&other.account).await.unwrap());
    assert_eq!(counts, (0, 2));
}

pub async fn accounts_are_known_by_their_tables_and_properties(engine: Arc<dyn Engine>, _: ManualClock) {
    assert!(engine.accounts().await.unwrap().is_empty());
    for (account, name) in [("zebra", "One"), ("apple", "One"), ("apple", "Two")] {
        engine.create_table(&table_of(account, name)).await.unwrap();
    }
    let melon = AccountName::new("melon").unwrap();
    // Getting the service properties of an account does not add the account to the list. Setting them does. An account
    // that already has tables is still listed once.
    engine.service_properties(&AccountName::new("ghost").unwrap()).unwrap();
    engine.update_service_properties(&melon, cors_update("*")).await.unwrap();
    engine.update_service_properties(&AccountName::new("zebra").unwrap(), cors_update("*")).await.unwrap();
    let accounts = async || engine.accounts().await.unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(accounts().await, ["apple", "melon", "zebra"]);
    engine.delete_table(&table_of("apple", "One")).await.unwrap();
    assert_eq!(accounts().await, ["apple", "melon", "zebra"], "the account has another table");
    engine.delete_table(&table_of("apple", "Two")).await.unwrap();
    engine.delete_table(&table_of("zebra", "One")).await.unwrap();
    assert_eq!(accounts().await, ["melon", "zebra"], "properties are kept without tables");
}

pub async fn one_of_many_creations_wins(engine: Arc<dyn Engine>, _: ManualClock) {
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let engine = Arc::clone(&engine);
        tasks.push(tokio::spawn(async move { engine.create_table(&table("Contested")).await.is_ok() }));
    }
    let mut created = 0;
    for task in tasks {
        created += usize::from(task.await.unwrap());
    }
    assert_eq!(created, 1);
}

pub async fn every_operation_on_a_missing_table_reports_it(engine: Arc<dyn Engine>, _: ManualClock) {
    let missing = table("Missing");
    assert!(engine.table(&missing).await.unwrap().is_none());
    assert!(matches!(engine.get(&missing, &key("p", "r")).await, Err(ReadError::TableNotFound)));
    assert!(matches!(
        engine.scan(&missing, scan_all(), CollectingSink::default()).await,
        Err(ReadError::TableNotFound)
    ));
    let commit = commit_one(&*engine, &missing, insert("p", "r", 1)).await;
    assert!(matches!(commit, Err(CommitError::TableNotFound)));
}

pub async fn a_table_created_again_is_empty(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = table("Reborn");
    for round in 0..5 {
        engine.create_table(&table).await.unwrap();
        assert!(all(&*engine, &table).await.is_empty(), "round {round}");
        assert!(engine.get(&table, &key("p", "r000")).await.unwrap().is_none());
        fill(&*engine, &table, "p", &(0..300).map(|n| format!("r{n:03}")).collect::<Vec<_>>()).await;
        let merge = Mutation::Merge {
            key: key("p", "r000"),
            properties: properties(&[("more", 1)]),
            condition: Condition::Any,
        };
        commit_one(&*engine, &table, merge).await.unwrap();
        engine.delete_table(&table).await.unwrap();
    }
}

pub async fn deleting_a_large_table_takes_no_time(engine: Arc<dyn Engine>, _: ManualClock) {
    let (large, other) = (table("Large"), table("Other"));
    engine.create_table(&other).await.unwrap();
    let (mut deletions, mut fillings) = (Vec::new(), Vec::new());
    for size in [7000, 7000, 20_000] {
        engine.create_table(&large).await.unwrap();
        let began = Instant::now();
        for partition in 0..10 {
            let rows: Vec<String> = (0..size / 10).map(|n| format!("{n}")).collect();
            fill(&*engine, &large, &partition.to_string(), &rows).await;
        }
        fillings.push(began.elapsed());
        let began = Instant::now();
        engine.delete_table(&large).await.unwrap();
        deletions.push(began.elapsed());
    }
    // The machine may delay one of the deletions, or be slow.
    let quick = Duration::from_millis(500).max(*fillings.iter().min().unwrap() / 10);
    assert!(deletions.iter().min().unwrap() < &quick, "{deletions:?} after {fillings:?}");
    // While the entities are being removed, other tables can be used, and no part of the deleted table is visible.
    let began = Instant::now();
    for n in 0..20 {
        engine.commit(&other, Transaction::single(insert("p", &n.to_string(), n))).await.unwrap();
        assert!(matches!(engine.get(&large, &key("1", "1")).await, Err(ReadError::TableNotFound)));
    }
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    engine.create_table(&large).await.unwrap();
    assert!(all(&*engine, &large).await.is_empty());
}
