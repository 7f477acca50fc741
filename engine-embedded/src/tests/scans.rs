//! Scans that are halted, abandoned, or wait for their turn, and scans while the engine closes.

use super::*;
use std::sync::atomic::AtomicUsize;

/// Signals when it has received the first entity, and accepts no more entities until it is told to continue.
struct HaltingSink {
    has_begun: Option<oneshot::Sender<()>>,
    /// The sink continues when the sender is dropped.
    halt: std_mpsc::Receiver<()>,
    entities: Arc<AtomicUsize>,
}

impl EntitySink for HaltingSink {
    fn entity(&mut self, _: &EntityView<'_>) -> SinkDecision {
        self.entities.fetch_add(1, Ordering::SeqCst);
        if let Some(has_begun) = self.has_begun.take() {
            has_begun.send(()).unwrap();
            self.halt.recv().unwrap_err();
        }
        SinkDecision::Accepted
    }
}

/// Returns the sink, a signal that it has begun, a handle that lets it continue when dropped, and the number of
/// entities received.
fn halting() -> (HaltingSink, oneshot::Receiver<()>, std_mpsc::Sender<()>, Arc<AtomicUsize>) {
    let (has_begun, begun) = oneshot::channel();
    let (go_on, halt) = std_mpsc::channel();
    let entities = Arc::<AtomicUsize>::default();
    (HaltingSink { has_begun: Some(has_begun), halt, entities: Arc::clone(&entities) }, begun, go_on, entities)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_scan_makes_room_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { concurrent_scans: 1, ..EmbeddedOptions::default() };
    let engine = Embedded::open(folder.path(), &options, TestClock::at(1000)).unwrap();
    fill(&engine, 20_000).await;
    let (table, (sink, begun, go_on, entities)) = (table(), halting());
    tokio::select! {
        _ = engine.scan(&table, scan_all(), sink) => panic!("it has not been told to continue"),
        begun = begun => begun.unwrap(),
    }
    drop(go_on);
    // No slot is free until the abandoned scan has stopped.
    assert_eq!(count(&engine).await.unwrap(), 20_000);
    assert!(entities.load(Ordering::SeqCst) < 20_000, "the abandoned scan ran to completion");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_runs_into_the_closing_answers_closed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(open(&folder));
    fill(&engine, 5_000).await;
    let (sink, begun, go_on, _) = halting();
    let scanner = Arc::clone(&engine);
    let scan = tokio::spawn(async move { scanner.scan(&table(), scan_all(), sink).await.map(|_| ()) });
    begun.await.unwrap();
    let closed = start_closing(&engine).await;
    drop(go_on);
    closed.await.unwrap();
    assert!(matches!(scan.await.unwrap(), Err(ReadError::Fault(Fault::Closed))));
}

/// Signals when it receives the first entity. Waits to be told to continue after the first entity and after the entity
/// with the given number.
struct TwiceHaltingSink {
    first: HaltingSink,
    second_at: usize,
    second: std_mpsc::Receiver<()>,
}

impl EntitySink for TwiceHaltingSink {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        let intake = self.first.entity(entity);
        if self.first.entities.load(Ordering::SeqCst) == self.second_at {
            self.second.recv_timeout(TIMEOUT).expect("the other scan has finished");
        }
        intake
    }
}

/// The engine runs one scan at a time. A scan gives up its slot as soon as others wait.
async fn engine_of_one_place(folder: &TempDir, entities: usize) -> Arc<Embedded> {
    let options = EmbeddedOptions { concurrent_scans: 1, ..EmbeddedOptions::default() };
    let mut engine = Embedded::open(folder.path(), &options, TestClock::at(1000)).unwrap();
    engine.scans.without_slices();
    fill(&engine, entities).await;
    Arc::new(engine)
}

async fn wait_for_waiting_scans(engine: &Embedded, scans: u64) {
    let began = Instant::now();
    while engine.figures().tree.unwrap().scans_waiting != scans {
        assert!(began.elapsed() < TIMEOUT, "{scans} should wait");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

type Scanned<S> = tokio::task::JoinHandle<Result<(S, ScanEnd), ReadError>>;

fn spawn_scan<S: EntitySink>(engine: &Arc<Embedded>, scan: Scan, sink: S) -> Scanned<S> {
    let engine = Arc::clone(engine);
    tokio::spawn(async move { engine.scan(&table(), scan, sink).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_scan_gives_its_place_to_others_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_of_one_place(&folder, 2000).await;
    let (first, begun, go_on, entities) = halting();
    let (others_are_done, second) = std_mpsc::channel();
    let long = spawn_scan(&engine, scan_all(), TwiceHaltingSink { first, second_at: 1000, second });
    begun.await.unwrap();
    let others = [101, 102].map(|limit| spawn_scan(&engine, Scan { limit, ..scan_all() }, Count(0)));
    wait_for_waiting_scans(&engine, 2).await;
    assert_eq!(engine.figures().tree.unwrap().scans_running, 1);
    drop(go_on);
    for (limit, other) in (101..).zip(others) {
        assert_eq!(other.await.unwrap().unwrap().0.0, limit);
    }
    assert!(entities.load(Ordering::SeqCst) <= 1000);
    others_are_done.send(()).unwrap();
    let (_, end) = long.await.unwrap().unwrap();
    assert_eq!((end.examined, end.next), (2000, None));
    assert_eq!(entities.load(Ordering::SeqCst), 2000, "each entity is passed once");
    assert_eq!(engine.figures().tree.unwrap().scans_running, 0);
}

/// The scan has given up the only slot and waits for its next turn, unless it ends first.
struct PausedScan {
    scan: Scanned<HaltingSink>,
    entities: Arc<AtomicUsize>,
    /// This scan holds the slot until `let_go` is dropped.
    holding: Scanned<HaltingSink>,
    let_go: std_mpsc::Sender<()>,
}

async fn paused(engine: &Arc<Embedded>, scan: Scan) -> PausedScan {
    let (sink, begun, go_on, entities) = halting();
    let scan = spawn_scan(engine, scan, sink);
    begun.await.unwrap();
    let (holder, holds, let_go, _) = halting();
    let holding = spawn_scan(engine, scan_all(), holder);
    wait_for_waiting_scans(engine, 1).await;
    drop(go_on);
    holds.await.unwrap();
    PausedScan { scan, entities, holding, let_go }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_waits_for_its_next_turn_ends_at_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_of_one_place(&folder, 2000).await;
    let deadline = Instant::now() + Duration::from_millis(200);
    let PausedScan { scan, entities, holding, let_go } = paused(&engine, Scan { deadline, ..scan_all() }).await;
    let ended = tokio::time::timeout(TIMEOUT, scan).await.expect("it ends without a slot");
    let (_, end) = ended.unwrap().unwrap();
    let examined = usize::try_from(end.examined).unwrap();
    assert!((1..=64).contains(&examined), "{examined}");
    assert_eq!(examined, entities.load(Ordering::SeqCst));
    drop(let_go);
    holding.await.unwrap().unwrap();
    let rest = Scan { from: end.next, ..scan_all() };
    let (Count(rest), _) = engine.scan(&table(), rest, Count(0)).await.unwrap();
    assert_eq!(examined + rest, 2000, "the next page starts where this one ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_waits_for_its_next_turn_and_is_abandoned_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_of_one_place(&folder, 2000).await;
    let PausedScan { scan, holding, let_go, .. } = paused(&engine, scan_all()).await;
    wait_for_waiting_scans(&engine, 1).await;
    scan.abort();
    wait_for_waiting_scans(&engine, 0).await;
    drop(let_go);
    holding.await.unwrap().unwrap();
    assert_eq!(count(&engine).await.unwrap(), 2000);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_waits_for_its_next_turn_answers_closed_when_the_engine_closes() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_of_one_place(&folder, 2000).await;
    let PausedScan { scan, holding, let_go, .. } = paused(&engine, scan_all()).await;
    wait_for_waiting_scans(&engine, 1).await;
    let closed = start_closing(&engine).await;
    drop(let_go);
    closed.await.unwrap();
    for scan in [scan, holding] {
        assert!(matches!(scan.await.unwrap(), Err(ReadError::Fault(Fault::Closed))));
    }
}
