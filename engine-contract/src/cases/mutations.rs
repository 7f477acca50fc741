use crate::support::*;
use engine::{CommitError, Engine, TableKey};
use model::{Condition, EdmValue, EntityLimits, Mutation, MutationError, MutationResult, RecordBuilder, Transaction};
use std::collections::BTreeSet;
use std::sync::Arc;

async fn with_table(engine: &dyn Engine) -> TableKey {
    let table = table("Entities");
    engine.create_table(&table).await.unwrap();
    table
}

/// Each mutation sets `value` to 2.
fn each_kind(row: &str) -> [(&'static str, Mutation); 6] {
    let (key, properties, condition) = (key("p", row), properties(&[("value", 2)]), Condition::Any);
    [
        ("insert", Mutation::Insert { key: key.clone(), properties: properties.clone() }),
        (
            "replace",
            Mutation::Replace { key: key.clone(), properties: properties.clone(), condition: condition.clone() },
        ),
        ("merge", Mutation::Merge { key: key.clone(), properties: properties.clone(), condition: condition.clone() }),
        ("insert or replace", Mutation::InsertOrReplace { key: key.clone(), properties: properties.clone() }),
        ("insert or merge", Mutation::InsertOrMerge { key: key.clone(), properties }),
        ("delete", Mutation::Delete { key, condition }),
    ]
}

fn refusal(result: Result<MutationResult, CommitError>) -> Option<MutationError> {
    match result {
        Ok(_) => None,
        Err(CommitError::Refused(0, error)) => Some(error),
        Err(other) => panic!("{other:?}"),
    }
}

pub async fn each_mutation_of_a_missing_entity(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    for (kind, mutation) in each_kind("missing") {
        let entity = key("p", "missing");
        let refused = refusal(commit_one(&*engine, &table, mutation).await);
        let stored = engine.get(&table, &entity).await.unwrap();
        let creates = ["insert", "insert or replace", "insert or merge"].contains(&kind);
        assert_eq!(refused, (!creates).then_some(MutationError::NotFound), "{kind}");
        assert_eq!(stored.map(|record| value(&record)), creates.then_some(2), "{kind}");
        if creates {
            commit_one(&*engine, &table, delete("p", "missing")).await.unwrap();
        }
    }
}

pub async fn each_mutation_of_an_existing_entity(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    for (kind, mutation) in each_kind("there") {
        let entity = key("p", "there");
        let before =
            Mutation::InsertOrReplace { key: entity.clone(), properties: properties(&[("value", 1), ("kept", 7)]) };
        commit_one(&*engine, &table, before).await.unwrap();
        let refused = refusal(commit_one(&*engine, &table, mutation).await);
        let stored = engine.get(&table, &entity).await.unwrap();
        assert_eq!(refused, (kind == "insert").then_some(MutationError::AlreadyExists), "{kind}");
        let expected = match kind {
            "insert" => Some((1, true)),
            "replace" | "insert or replace" => Some((2, false)),
            "merge" | "insert or merge" => Some((2, true)),
            _ => None,
        };
        let found = stored.map(|record| (value(&record), record.view().unwrap().get("kept").unwrap().is_some()));
        assert_eq!(found, expected, "{kind}");
    }
}

pub async fn each_condition_that_is_not_met(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    let old = stamp(commit_one(&*engine, &table, insert("p", "r", 1)).await.unwrap());
    let new = stamp(commit_one(&*engine, &table, upsert("p", "r", 2)).await.unwrap());
    let with_condition = |condition: Condition| {
        let (key, properties) = (key("p", "r"), properties(&[("value", 3)]));
        [
            Mutation::Replace { key: key.clone(), properties: properties.clone(), condition: condition.clone() },
            Mutation::Merge { key: key.clone(), properties, condition: condition.clone() },
            Mutation::Delete { key, condition },
        ]
    };
    for mutation in with_condition(if_match(old)) {
        assert_eq!(refusal(commit_one(&*engine, &table, mutation).await), Some(MutationError::ConditionNotMet));
    }
    let mut current = new;
    for mutation in with_condition(Condition::Any) {
        let mutation = match mutation {
            Mutation::Replace { key, properties, .. } => {
                Mutation::Replace { key, properties, condition: if_match(current) }
            }
            Mutation::Merge { key, properties, .. } => {
                Mutation::Merge { key, properties, condition: if_match(current) }
            }
            Mutation::Delete { key, .. } => Mutation::Delete { key, condition: if_match(current) },
            other => other,
        };
        if let MutationResult::Stored(stamp) = commit_one(&*engine, &table, mutation).await.unwrap() {
            current = stamp;
        }
    }
    assert!(all(&*engine, &table).await.is_empty());
}

pub async fn a_refused_member_leaves_nothing_of_its_transaction(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    commit_one(&*engine, &table, insert("p", "there", 1)).await.unwrap();
    let before = all(&*engine, &table).await;
    for refused_at in [0, 3, 6] {
        let mut mutations =
            vec![upsert("p", "new1", 2), delete("p", "there"), upsert("p", "new2", 2), insert("p", "new3", 2)];
        mutations.extend([upsert("p", "new4", 2), upsert("p", "new5", 2)]);
        mutations.insert(refused_at, delete("p", "missing"));
        let result = engine.commit(&table, Transaction::new(mutations).unwrap()).await;
        assert!(matches!(result, Err(CommitError::Refused(at, MutationError::NotFound)) if at == refused_at));
        assert_eq!(all(&*engine, &table).await, before);
    }
}

pub async fn answers_come_in_the_order_of_the_mutations(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    commit_one(&*engine, &table, insert("p", "b", 1)).await.unwrap();
    let mutations = vec![upsert("p", "c", 1), delete("p", "b"), insert("p", "a", 1)];
    let written = engine.commit(&table, Transaction::new(mutations).unwrap()).await.unwrap();
    assert!(
        matches!(written[..], [MutationResult::Stored(c), MutationResult::Deleted, MutationResult::Stored(a)] if a == c)
    );
    assert_eq!(names(&all(&*engine, &table).await), ["p/a", "p/c"]);
}

pub async fn the_stored_records_are_returned_if_asked_for(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    commit_one(&*engine, &table, insert("p", "b", 1)).await.unwrap();
    let other = || properties(&[("other", 7)]);
    let merge = |row| Mutation::Merge { key: key("p", row), properties: other(), condition: Condition::Any };
    let returned = |result: &MutationResult| match result {
        MutationResult::Returned(record) => record.clone(),
        other => panic!("{other:?}"),
    };
    // One at a time, and in a transaction with others.
    let alone = engine.commit(&table, Transaction::single(merge("b")).returning(vec![0])).await.unwrap();
    let stored = engine.get(&table, &key("p", "b")).await.unwrap().unwrap();
    assert_eq!((alone.len(), returned(&alone[0])), (1, stored.clone()));
    assert_eq!(value(&stored), 1, "the record contains what the mutation did not send");
    let mutations = vec![
        merge("b"),
        Mutation::InsertOrMerge { key: key("p", "c"), properties: other() },
        insert("p", "d", 2),
        upsert("p", "e", 3),
    ];
    let transaction = Transaction::new(mutations).unwrap().returning(vec![0, 1, 3]);
    let written = engine.commit(&table, transaction).await.unwrap();
    for (index, row) in [(0, "b"), (1, "c"), (3, "e")] {
        let stored = engine.get(&table, &key("p", row)).await.unwrap().unwrap();
        assert_eq!(returned(&written[index]), stored, "{row}");
        assert_eq!(written[index].timestamp(), Some(stored.view().unwrap().timestamp()), "{row}");
    }
    assert!(matches!(written[2], MutationResult::Stored(stamp) if Some(stamp) == written[0].timestamp()));
    // A deletion has no record.
    let transaction = Transaction::new(vec![delete("p", "b"), merge("c")]).unwrap().returning(vec![0, 1]);
    let written = engine.commit(&table, transaction).await.unwrap();
    assert!(matches!(written[..], [MutationResult::Deleted, MutationResult::Returned(_)]));
}

pub async fn concurrent_merges_return_what_each_of_them_stored(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    let writers = (0..4).map(|writer| {
        let (engine, table) = (Arc::clone(&engine), table.clone());
        tokio::spawn(async move {
            for n in 0..25 {
                let name = format!("by{writer}");
                let merge = Mutation::InsertOrMerge { key: key("p", "r"), properties: properties(&[(&name, n)]) };
                let transaction = Transaction::single(merge).returning(vec![0]);
                let written = engine.commit(&table, transaction).await.unwrap();
                let MutationResult::Returned(record) = &written[0] else { panic!("{written:?}") };
                // No other writer sets this property, so the record is the version that this writer stored.
                assert_eq!(record.view().unwrap().get(&name).unwrap(), Some(EdmValue::Int64(n)));
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

pub async fn the_answer_is_the_stored_timestamp(engine: Arc<dyn Engine>, clock: ManualClock) {
    let table = with_table(&*engine).await;
    clock.set(START_TICKS + 5_000);
    for mutation in [insert("p", "r", 1), upsert("p", "r", 2), each_kind("r")[2].1.clone()] {
        let answered = stamp(commit_one(&*engine, &table, mutation).await.unwrap());
        let record = engine.get(&table, &key("p", "r")).await.unwrap().unwrap();
        assert_eq!(record.view().unwrap().timestamp(), answered);
        assert_eq!(all(&*engine, &table).await[0].record, record);
        assert!(answered.ticks() >= START_TICKS + 5_000);
    }
}

pub async fn timestamps_grow_when_the_clock_goes_back(engine: Arc<dyn Engine>, clock: ManualClock) {
    let table = with_table(&*engine).await;
    let mut last = stamp(commit_one(&*engine, &table, upsert("p", "r", 0)).await.unwrap());
    for (n, offset) in [0, 0, 100, -1_000_000, -500_000, 200, 200].into_iter().enumerate() {
        clock.set(START_TICKS + offset);
        // Write to the same entity and to different ones, because the order must hold for the whole engine.
        for row in ["r".to_owned(), format!("new{n}")] {
            let next = stamp(commit_one(&*engine, &table, upsert("p", &row, 1)).await.unwrap());
            assert!(next > last, "{next:?} after {last:?}");
            last = next;
        }
    }
    clock.set(START_TICKS + 1_000_000);
    let next = stamp(commit_one(&*engine, &table, upsert("p", "r", 1)).await.unwrap());
    // An engine for several servers reserves the low bits for the server's slot.
    let ahead = next.ticks() - START_TICKS - 1_000_000;
    assert!((0..64).contains(&ahead), "Timestamps follow a clock that runs ahead, and are not {ahead} ticks after it");
}

pub async fn timestamps_differ_between_concurrent_transactions(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    let mut tasks = Vec::new();
    for task in 0..16 {
        let (engine, table) = (Arc::clone(&engine), table.clone());
        tasks.push(tokio::spawn(async move {
            let mut stamps = Vec::new();
            for n in 0..20 {
                let mutation = upsert(&task.to_string(), &(n % 3).to_string(), n);
                stamps.push(stamp(commit_one(&*engine, &table, mutation).await.unwrap()).ticks());
            }
            assert!(stamps.is_sorted());
            stamps
        }));
    }
    let mut stamps = BTreeSet::new();
    for task in tasks {
        stamps.extend(task.await.unwrap());
    }
    assert_eq!(stamps.len(), 16 * 20);
}

pub async fn one_of_many_inserts_of_an_entity_wins(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    let mut tasks = Vec::new();
    for task in 0..32 {
        let (engine, table) = (Arc::clone(&engine), table.clone());
        tasks.push(tokio::spawn(async move {
            let mutations = vec![insert("p", "contested", task), insert("p", &format!("mine{task}"), task)];
            engine.commit(&table, Transaction::new(mutations).unwrap()).await.is_ok()
        }));
    }
    let mut winners = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        if task.await.unwrap() {
            winners.push(number);
        }
    }
    let [winner] = winners[..] else { panic!("several won: {winners:?}") };
    assert_eq!(names(&all(&*engine, &table).await), ["p/contested".to_owned(), format!("p/mine{winner}")]);
}

pub async fn no_concurrent_update_is_lost(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    commit_one(&*engine, &table, insert("p", "counter", 0)).await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (engine, table) = (Arc::clone(&engine), table.clone());
        tasks.push(tokio::spawn(async move {
            let mut done = 0;
            while done < 20 {
                let record = engine.get(&table, &key("p", "counter")).await.unwrap().unwrap();
                let condition = if_match(record.view().unwrap().timestamp());
                let properties = properties(&[("value", value(&record) + 1)]);
                let replace = Mutation::Replace { key: key("p", "counter"), properties, condition };
                match commit_one(&*engine, &table, replace).await {
                    Ok(_) => done += 1,
                    Err(CommitError::Refused(0, MutationError::ConditionNotMet)) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let record = engine.get(&table, &key("p", "counter")).await.unwrap().unwrap();
    assert_eq!(record.view().unwrap().get("value").unwrap(), Some(EdmValue::Int64(8 * 20)));
}

/// Such entities are stored by requests of one dialect, and read, replaced and deleted by requests of every dialect.
pub async fn an_entity_of_the_wider_limits_is_like_others(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    let entity = key("p", "r");
    let widest = widest();
    let insert = Mutation::Insert { key: entity.clone(), properties: widest.clone() };
    let inserted = stamp(commit_one(&*engine, &table, insert).await.unwrap());
    let stored = engine.get(&table, &entity).await.unwrap().unwrap();
    assert_eq!(stored, widest.clone().finish(inserted));
    let found = all(&*engine, &table).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].record, stored);
    // A merge is judged by the limits of its request.
    let merge = |properties| Mutation::InsertOrMerge { key: entity.clone(), properties };
    let narrow = || properties(&[("value", 2)]);
    let refused = refusal(commit_one(&*engine, &table, merge(narrow())).await);
    assert_eq!(refused, Some(MutationError::TooManyProperties));
    let mut wide = RecordBuilder::within(&EntityLimits::WIDEST, 0);
    wide.push("value", EdmValue::Int64(2));
    commit_one(&*engine, &table, merge(wide)).await.unwrap();
    let merged = engine.get(&table, &entity).await.unwrap().unwrap();
    assert_eq!((value(&merged), merged.as_bytes().len()), (2, stored.as_bytes().len()));
    let replace = Mutation::Replace { key: entity.clone(), properties: narrow(), condition: Condition::Any };
    commit_one(&*engine, &table, replace).await.unwrap();
    assert_eq!(engine.get(&table, &entity).await.unwrap().unwrap().view().unwrap().len(), 1);
    commit_one(&*engine, &table, Mutation::InsertOrReplace { key: entity.clone(), properties: widest }).await.unwrap();
    commit_one(&*engine, &table, delete("p", "r")).await.unwrap();
    assert!(all(&*engine, &table).await.is_empty());
}
