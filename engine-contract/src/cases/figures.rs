use crate::support::*;
use engine::Engine;
use engine::figures::{DatabaseFigures, Figures, NodeFigures, Refusal};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub async fn figures_follow_the_operations(engine: Arc<dyn Engine>, _: ManualClock) {
    let fresh = engine.figures();
    assert_eq!(fresh.refusal, None);
    assert!(fresh.tables.is_none_or(|tables| tables == 0), "{fresh:?}");
    let (entities, others) = (table("Entities"), table("Others"));
    engine.create_table(&entities).await.unwrap();
    engine.create_table(&others).await.unwrap();
    for number in 0..3 {
        commit_one(&*engine, &entities, insert("p", &number.to_string(), number)).await.unwrap();
    }
    assert!(commit_one(&*engine, &entities, insert("p", "0", 0)).await.is_err());
    let figures = engine.figures();
    assert!(figures.tables.is_none_or(|tables| tables == 2), "{figures:?}");
    if let Some(committer) = &figures.committer {
        assert_eq!((committer.transactions, committer.queue), (3, 0));
        assert_eq!((committer.group_transactions.sum, committer.group_entities.sum), (3, 3));
        let groups = committer.write_nanoseconds.counts.iter().sum::<u64>();
        assert_eq!(committer.group_transactions.counts.iter().sum::<u64>(), groups);
        assert!(committer.write_nanoseconds.sum > 0);
        let [("room", _), ("apply", applying), ("write", writing), ("answer", _)] = committer.busy_nanoseconds else {
            panic!("{committer:?}")
        };
        // The last transaction was refused, so its group had nothing to write.
        assert!(applying > 0 && writing >= committer.write_nanoseconds.sum, "{committer:?}");
        assert!(figures.tree.as_ref().unwrap().disk_bytes > 0 && figures.disk.unwrap().free_bytes > 0);
    }
    if let Some(database) = &figures.database {
        let sum = |count: fn(&NodeFigures) -> u64| database.nodes.iter().map(count).sum::<u64>();
        assert!(!database.nodes.is_empty() && database.nodes.iter().all(|node| node.is_up), "{database:?}");
        assert!((1..=database.connections_max).contains(&sum(|node| node.connections)), "{database:?}");
        // Each attempted transaction took a connection and a step, and so did each catalog operation.
        assert!(sum(|node| node.step_nanoseconds.counts.iter().sum()) >= 7, "{database:?}");
        assert!(sum(|node| node.wait_nanoseconds.counts.iter().sum()) >= 4, "{database:?}");
    }
    assert_eq!(figures.committer.is_some(), figures.tree.is_some());
    let began = Instant::now();
    // A background task may be opening a connection.
    let waiting = |database: DatabaseFigures| database.nodes.iter().map(|node| node.waiting).sum::<u64>();
    while engine.figures().database.map_or(0, waiting) > 0 {
        assert!(began.elapsed() < TIMEOUT, "a request waits for a connection");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // A transaction's memory is released from the queue shortly after the response.
    while engine.figures().committer.is_some_and(|committer| committer.queue_bytes > 0) {
        assert!(began.elapsed() < TIMEOUT, "the memory of the queue is not released");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub async fn a_purge_ends(engine: Arc<dyn Engine>, _: ManualClock) {
    let entities = table("Entities");
    engine.create_table(&entities).await.unwrap();
    commit_one(&*engine, &entities, insert("p", "r", 1)).await.unwrap();
    engine.delete_table(&entities).await.unwrap();
    let began = Instant::now();
    loop {
        let Figures { tables, purge_backlog, .. } = engine.figures();
        assert!(tables.is_none_or(|tables| tables == 0));
        if purge_backlog == Some(0) {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "{purge_backlog:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub async fn a_closed_engine_is_reported_as_closed(engine: Arc<dyn Engine>, _: ManualClock) {
    engine.close().await.unwrap();
    assert_eq!(engine.figures().refusal, Some(Refusal::Closed));
}
