//! Pages whose first part is read on the thread of the request.

use super::*;
use crate::reading::TOMBSTONES_MAX;
use engine_contract::support::CollectingSink;
use model::filter::{Comparison, Literal, Operator, PropertyName};
use model::{Entity, Filter, KeyRange, Position};
use test_support::Random;

fn point(number: usize) -> KeyRange {
    let start = key(number).encode();
    KeyRange { end: Some([start.as_slice(), &[0]].concat()), start }
}

fn without_match() -> Filter {
    let property = PropertyName::new("value");
    Filter::Compare(Comparison { property, operator: Operator::Equal, literal: Literal::Int64(-1) })
}

fn sized(number: usize, bytes: usize) -> Mutation {
    let mut properties = RecordBuilder::default();
    properties.push("value", EdmValue::Int64(1));
    properties.push("filler", EdmValue::Binary(&vec![7; bytes]));
    Mutation::InsertOrReplace { key: key(number), properties }
}

fn begin(engine: &Embedded, scan: &Scan) -> RunningPage<CollectingSink> {
    let (shared, sink) = (Arc::clone(&engine.shared), CollectingSink::default());
    RunningPage::begin(shared, &table(), scan.clone(), sink, Cancellation::default()).unwrap()
}

async fn rest(engine: &Embedded, page: RunningPage<CollectingSink>) -> (Vec<Entity>, ScanEnd) {
    match page.run(&engine.scans.begin().await.unwrap()).unwrap() {
        Step::Finished(sink, end) => (sink.entities, end),
        Step::Paused(_) => panic!("no other scan waits"),
    }
}

async fn whole(engine: &Embedded, scan: &Scan) -> (Vec<Entity>, ScanEnd) {
    rest(engine, begin(engine, scan)).await
}

async fn in_parts(engine: &Embedded, scan: &Scan) -> (Vec<Entity>, ScanEnd) {
    match begin(engine, scan).run_first_part().unwrap() {
        Step::Finished(sink, end) => (sink.entities, end),
        Step::Paused(page) => rest(engine, *page).await,
    }
}

#[tokio::test]
async fn a_page_is_the_same_in_one_part_and_in_two() {
    const KEYS: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    engine.create_table(&table()).await.unwrap();
    let mut random = Random::from_environment("ROWHOUSE_SMALL_SEED");
    let mut parts = [0, 0];
    for round in 0..40 {
        for _ in 0..20 {
            let (number, bytes) = (random.index(KEYS), [10, 10, 2000, 30_000][random.index(4)]);
            let deletion = Mutation::Delete { key: key(number), condition: Condition::Any };
            let mutation = if random.below(3) == 0 { deletion } else { sized(number, bytes) };
            // The entity to delete may not exist.
            let _refused = commit(&engine, mutation).await;
        }
        if round % 10 == 5 {
            engine.shared.storage.flush_everything().unwrap();
        }
        for _ in 0..25 {
            let bounds = [random.index(KEYS), random.index(KEYS)];
            let span = KeyRange { start: point(bounds[0]).start, end: Some(point(bounds[1]).start) };
            let points = (bounds[0]..bounds[0] + random.index(12)).map(point).collect();
            let scan = Scan {
                ranges: match random.below(3) {
                    0 => vec![KeyRange::all()],
                    1 => vec![span].into_iter().filter(|range| !range.is_empty()).collect(),
                    _ => points,
                },
                from: (random.below(3) == 0).then(|| Position::from_bytes(key(random.index(KEYS)).encode())),
                filter: (random.below(4) == 0).then(without_match),
                limit: [0, 1, 2, 32, 33, usize::MAX][random.index(6)],
                ..scan_all()
            };
            let expected = whole(&engine, &scan).await;
            assert_eq!(in_parts(&engine, &scan).await, expected, "{scan:?}");
            let (sink, end) = engine.scan(&table(), scan.clone(), CollectingSink::default()).await.unwrap();
            assert_eq!((sink.entities, end), expected, "{scan:?}");
            let step = begin(&engine, &scan).run_first_part().unwrap();
            parts[usize::from(matches!(step, Step::Paused(_)))] += 1;
        }
    }
    assert!(parts.iter().all(|count| *count > 50), "{parts:?}");
}

#[tokio::test]
async fn the_first_part_of_a_page_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 500).await;
    for number in 100..200 {
        commit(&engine, sized(number, 10 * 1024)).await.unwrap();
    }
    for number in 200..210 {
        commit(&engine, large(number)).await.unwrap();
    }
    // If the machine is busy, the first part may end early.
    for (first, filter, examined_max) in [
        (0, Some(without_match()), 64),
        (100, Some(without_match()), 6),
        (200, Some(without_match()), 1),
        (0, None, 64),
        (100, None, 6),
    ] {
        let from = Some(Position::from_bytes(key(first).encode()));
        let Step::Paused(page) = begin(&engine, &Scan { from, filter, ..scan_all() }).run_first_part().unwrap() else {
            panic!("the page ended in its first part")
        };
        let (sink, end) = page.end().unwrap();
        assert!((1..=examined_max).contains(&end.examined), "{} from {first}", end.examined);
        let next = key(first + usize::try_from(end.examined).unwrap()).encode();
        assert_eq!(end.next, Some(Position::from_bytes(next)), "{}", sink.entities.len());
    }
}

/// Tries until a page needs no slot, because a thread that loses its processor may end the first part of the page.
async fn scans_without_slot(engine: &Embedded, scan: &Scan) -> usize {
    let (table, began) = (table(), Instant::now());
    loop {
        assert!(began.elapsed() < TIMEOUT, "the page waits for a slot");
        let page = engine.scan(&table, scan.clone(), Count(0));
        if let Ok(page) = tokio::time::timeout(Duration::from_millis(200), page).await {
            return page.unwrap().0.0;
        }
    }
}

async fn waits_for_a_slot(engine: &Embedded, scan: Scan) -> bool {
    let table = table();
    let page = engine.scan(&table, scan, Count(0));
    tokio::pin!(page);
    tokio::select! {
        biased;
        _ = &mut page => false,
        () = std::future::ready(()) => engine.scans.waiting() == 1,
    }
}

#[tokio::test]
async fn small_pages_need_no_slot() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { concurrent_scans: 1, ..EmbeddedOptions::default() };
    let engine = Embedded::open(folder.path(), &options, TestClock::at(1000)).unwrap();
    fill(&engine, 200).await;
    let slot = engine.scans.begin().await.unwrap();
    let top = Scan { limit: 1, ..scan_all() };
    let points = Scan { ranges: vec![point(3), point(7), point(1000)], ..scan_all() };
    let nothing = Scan { ranges: Vec::new(), ..scan_all() };
    for (scan, count) in [(&top, 1), (&points, 2), (&nothing, 0)] {
        assert_eq!(scans_without_slot(&engine, scan).await, count);
    }
    // Others wait, and so does a page that turns out not to be small.
    let missing = Scan { ranges: (1000..1009).map(point).collect(), ..top.clone() };
    for scan in
        [scan_all(), missing, Scan { limit: 33, ..scan_all() }, Scan { filter: Some(without_match()), ..top.clone() }]
    {
        assert!(waits_for_a_slot(&engine, scan.clone()).await, "{scan:?}");
    }
    // The library steps over all tombstones at once. No merge drops them while an older snapshot is open.
    let _older = engine.shared.storage.tree.snapshot();
    let mut deletions = Operations::default();
    for number in 0..=u32::try_from(TOMBSTONES_MAX).unwrap() {
        deletions.delete([&TableId::FIRST.to_bytes()[..], b"gone\0", &number.to_be_bytes()].concat());
    }
    engine.shared.storage.write(vec![deletions.into_transaction(Origin::Catalog)], None, true).unwrap();
    assert!(waits_for_a_slot(&engine, top.clone()).await);
    assert_eq!(scans_without_slot(&engine, &points).await, 2);
    drop(slot);
    assert_eq!(engine.scan(&table(), top, Count(0)).await.unwrap().0.0, 1);
}

/// The test runs on a single thread, where a waiting read would block all other tasks.
#[tokio::test]
async fn a_small_page_that_may_wait_for_the_disk_or_take_long_holds_up_no_task() {
    let folder = tempfile::tempdir().unwrap();
    for is_slow_disk in [true, false] {
        let engine = open(&folder);
        if is_slow_disk {
            fill(&engine, 200).await;
        }
        move_reads(if is_slow_disk { &engine.shared.recent_reads } else { &engine.shared.recent_pages });
        for scan in [Scan { limit: 1, ..scan_all() }, Scan { ranges: vec![point(7)], ..scan_all() }] {
            // The catalog lock, which every page takes, simulates a slow disk.
            let (disk, release) = hold_catalog(&engine);
            let (table, released) = (table(), async { release.send(()).unwrap() });
            let (page, ()) = tokio::join!(engine.scan(&table, scan, Count(0)), released);
            assert_eq!(page.unwrap().0.0, 1);
            assert!(disk.join().unwrap(), "the page blocked the thread");
        }
    }
}

#[tokio::test]
async fn pages_that_take_long_are_moved_and_gets_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    let (reads, pages) = (&engine.shared.recent_reads, &engine.shared.recent_pages);
    while !pages.are_moved() {
        engine.shared.record_page(Duration::from_millis(5), false);
    }
    assert!(engine.shared.begin_page() && !reads.are_moved());
    while !reads.are_moved() {
        engine.shared.record_page(Duration::from_millis(5), true);
    }
}
