//! A standby holds what its primary holds, and takes over from it.

use crate::copying::add_chunk;
use crate::decisions::{Refusal, StandbyHello, StandbyPosition};
use crate::follower::{adopt, set_awaited};
use crate::frames::push_entry;
use crate::primary::{Replication, chunk_after};
use crate::promotion::promote_folder;
use engine::changes::{ChangeSelection, ChangedTransaction};
use engine::{ChangesError, CommitError, Engine, Fault, KeepChanges};
use engine_contract::cases::indexes::{set_indexes, wait_until_ready};
use engine_contract::support::*;
use engine_embedded::{
    AppendError, Awaited, Embedded, EmbeddedOptions, Epoch, Identity, KeptLog, OpenError, RecordBatch, Role,
    StandbyFolder, StandbyLog, lineage_of,
};
use model::{StoredAccessPolicies, StoredAccessPolicy};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TABLES: [&str; 3] = ["Cars", "Bikes", "Boats"];
/// The variable that sets the number of steps of the random workload.
const STEPS: &str = "ROWHOUSE_REPLICATION_STEPS";

const YEAR_2027: i64 = 134_432_352_000_000_000;

fn options() -> EmbeddedOptions {
    let kept_log = KeptLog::Within(KeepChanges { age: Duration::from_hours(1), bytes: 1 << 30 });
    EmbeddedOptions { kept_log, min_free_bytes: 0, ..EmbeddedOptions::default() }
}

struct Primary {
    engine: Embedded,
    replication: Replication,
}

fn open_primary(folder: &Path, options: &EmbeddedOptions, ticks: i64) -> Primary {
    let engine = Embedded::open(folder, options, ManualClock::at(ticks)).unwrap();
    let replication = Replication::new(&engine).unwrap();
    Primary { engine, replication }
}

fn primary(folder: &Path) -> Primary {
    open_primary(folder, &options(), START_TICKS)
}

fn waiting_primary(folder: &Path, timeout: Duration) -> Primary {
    open_primary(folder, &EmbeddedOptions { confirmation_timeout: Some(timeout), ..options() }, START_TICKS)
}

async fn create_cars(primary: &Primary) {
    primary.engine.create_table(&table("Cars")).await.unwrap();
}

/// Inserts an entity into the table, and returns its Timestamp.
async fn write(primary: &Primary, row: &str) -> model::DateTime {
    stamp(commit_one(&primary.engine, &table("Cars"), insert("p", row, 1)).await.unwrap())
}

struct Standby {
    engine: Embedded,
    log: StandbyLog,
}

fn standby(folder: &Path) -> Standby {
    let (engine, log) = Embedded::open_standby(folder, &options(), ManualClock::at(START_TICKS)).unwrap();
    Standby { engine, log }
}

fn hello(standby: &StandbyLog) -> StandbyHello {
    let lineage = standby.lineage();
    let has = StandbyPosition { log: lineage.log, epoch: lineage.newest(), last: standby.synced() };
    StandbyHello { standby: standby.id(), has: Some(has), replaces: false }
}

fn new_hello(replaces: bool) -> StandbyHello {
    StandbyHello { standby: Identity::random(), has: None, replaces }
}

fn refusal<T>(answer: anyhow::Result<T>) -> Refusal {
    *answer.map(drop).unwrap_err().downcast_ref().unwrap()
}

/// Fills a new folder from a base copy, and opens it.
fn begin_standby(primary: &Primary, folder: &Path) -> Standby {
    let hello = new_hello(false);
    let lineage = primary.replication.admit(&hello).unwrap();
    let copy = primary.replication.log.base_copy().unwrap();
    let mut filled = StandbyFolder::begin(folder, (hello.standby, Awaited::None), &lineage, copy.sequence()).unwrap();
    while let Some(chunk) = chunk_after(&copy, filled.last_key()).unwrap() {
        add_chunk(&mut filled, &chunk).unwrap();
    }
    filled.finish().unwrap();
    standby(folder)
}

async fn place_with_cars() -> (Place, Primary) {
    let place = Place::new();
    let first = primary(&place.at("first"));
    create_cars(&first).await;
    (place, first)
}

/// Returns a primary, a standby with everything, and one that lacks the last transaction.
async fn primary_with_standbys(place: &Place) -> (Primary, Standby, Standby) {
    let first = primary(&place.at("first"));
    create_cars(&first).await;
    let second = begin_standby(&first, &place.at("second"));
    let behind = begin_standby(&first, &place.at("behind"));
    write(&first, "both").await;
    catch_up(&first, &second);
    (first, second, behind)
}

/// Sends at most about `bytes` bytes. Returns false if there is nothing to send.
fn send(primary: &Primary, standby: &Standby, bytes: usize) -> bool {
    let lineage = primary.replication.admit(&hello(&standby.log)).unwrap();
    adopt(&standby.log, &lineage).unwrap();
    let Some(batch) = primary.replication.read(standby.log.synced() + 1, bytes).unwrap() else { return false };
    let synced = standby.log.append(&batch).unwrap();
    assert_eq!(synced, batch.last());
    primary.replication.confirm(standby.log.id(), synced);
    true
}

fn catch_up(primary: &Primary, standby: &Standby) {
    while send(primary, standby, 10_000) {}
}

/// Returns all keys and values, including the keys of the engine itself, and the last transaction.
fn contents(replication: &Replication) -> (u64, Vec<u8>) {
    let copy = replication.log.base_copy().unwrap();
    let mut bytes = Vec::new();
    let push = |key: &[u8], value: &[u8]| {
        push_entry(&mut bytes, key, value);
        ControlFlow::Continue(())
    };
    copy.read(None, push).unwrap();
    (copy.sequence(), bytes)
}

/// Returns the transactions in the change log from a position on.
async fn changes(engine: &Embedded, from: u64) -> Result<Vec<ChangedTransaction>, ChangesError> {
    let log = engine.change_log().unwrap();
    let (mut found, mut next) = (Vec::new(), from);
    while next < log.kept().next {
        let page = log.read(next, &ChangeSelection::default(), 1 << 20).await?;
        next = page.next;
        found.extend(page.transactions);
    }
    Ok(found)
}

async fn assert_same(primary: &Primary, standby: &Standby) {
    let seen = Replication::new(&standby.engine).unwrap();
    loop {
        let (theirs, own) = (contents(&seen), contents(&primary.replication));
        if theirs.0 == own.0 {
            assert_eq!(theirs, own);
            break;
        }
        // The primary also writes in the background, for example when it forgets the names of deleted tables.
        assert!(theirs.0 < own.0, "a standby is never ahead");
        catch_up(primary, standby);
    }
    let from = primary.engine.change_log().unwrap().kept().first.max(standby.engine.change_log().unwrap().kept().first);
    let (mine, theirs) = (changes(&primary.engine, from).await, changes(&standby.engine, from).await);
    assert_eq!(format!("{:?}", mine.unwrap()), format!("{:?}", theirs.unwrap()));
    for name in TABLES {
        let exists = primary.engine.table(&table(name)).await.unwrap();
        assert_eq!(standby.engine.table(&table(name)).await.unwrap(), exists);
        if exists.is_some() {
            assert_eq!(all(&standby.engine, &table(name)).await, all(&primary.engine, &table(name)).await);
            let indexes = primary.engine.indexes(&table(name)).await.unwrap();
            assert_eq!(standby.engine.indexes(&table(name)).await.unwrap(), indexes);
            let policies = primary.engine.policies(&table(name)).await.unwrap();
            assert_eq!(standby.engine.policies(&table(name)).await.unwrap(), policies);
        }
    }
    let account = table(TABLES[0]).account;
    let properties = primary.engine.service_properties(&account).unwrap();
    assert_eq!(standby.engine.service_properties(&account).unwrap(), properties);
}

/// Makes a random change, which may be refused.
async fn change(engine: &Embedded, random: &mut Random) {
    let table = table(TABLES[random.index(TABLES.len())]);
    let row = format!("{:03}", random.below(200));
    match random.below(20) {
        0 => drop(engine.create_table(&table).await),
        1 if random.below(4) == 0 => drop(engine.delete_table(&table).await),
        2 if engine.table(&table).await.unwrap().is_some() => {
            set_indexes(engine, &table, if random.below(2) == 0 { &["value"] } else { &[] }).await;
        }
        3 => {
            let policies = StoredAccessPolicies::new(vec![StoredAccessPolicy::new(&row).unwrap()]).unwrap();
            drop(engine.set_policies(&table, policies).await);
        }
        4 => {
            let update = cors_update(&format!("https://{row}.example"));
            engine.update_service_properties(&table.account, update).await.unwrap();
        }
        5..10 => drop(commit_one(engine, &table, delete("p", &row)).await),
        _ => drop(commit_one(engine, &table, upsert("p", &row, i64::try_from(random.below(50)).unwrap())).await),
    }
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_follows_a_random_workload() {
    let mut random = Random::from_environment(SEED);
    let place = Place::new();
    let mut first = primary(&place.at("first"));
    for _ in 0..random.below(100) {
        change(&first.engine, &mut random).await;
    }
    let mut second = begin_standby(&first, &place.at("second"));
    for step in 0..setting(STEPS).unwrap_or(600) {
        change(&first.engine, &mut random).await;
        match random.below(40) {
            0 => {
                first.engine.close().await.unwrap();
                drop(first);
                first = primary(&place.at("first"));
            }
            1 => {
                if random.below(2) == 0 {
                    second.engine.close().await.unwrap();
                }
                drop(second);
                second = standby(&place.at("second"));
            }
            2..20 => drop(send(&first, &second, random.index(20_000))),
            _ => {}
        }
        if step % 100 == 99 {
            // The primary also writes in the background, for example while it builds an index.
            let before = first.replication.log.synced();
            catch_up(&first, &second);
            let reached = second.log.synced();
            let after = first.replication.log.synced();
            assert!((before..=after).contains(&reached), "{reached} is not from {before} to {after}");
        }
    }
    for name in TABLES {
        if first.engine.table(&table(name)).await.unwrap().is_some() {
            wait_until_ready(&first.engine, &table(name)).await;
        }
    }
    // The removal of a deleted table's entities may still be in progress.
    let began = Instant::now();
    while first.engine.figures().purge_backlog != Some(0) {
        assert!(began.elapsed() < TIMEOUT, "the primary never becomes idle");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_same(&first, &second).await;
    // The former primary stops, and the standby takes over.
    let position = second.log.synced();
    let before = changes(&second.engine, position.saturating_sub(50)).await.unwrap();
    let ids = contents(&Replication::new(&second.engine).unwrap()).1;
    first.engine.close().await.unwrap();
    second.engine.close().await.unwrap();
    drop((first, second));
    let promotion = promote_folder(&place.at("second"), false).unwrap();
    assert_eq!(promotion.last, position);
    assert_eq!(promotion.lineage.epoch(), 2);
    let second = primary(&place.at("second"));
    assert_eq!(contents(&second.replication).1, ids);
    let after = changes(&second.engine, position.saturating_sub(50)).await.unwrap();
    assert_eq!(format!("{after:?}"), format!("{before:?}"), "positions are valid after the promotion");
    drop(second.engine.create_table(&table("Later")).await);
    let written = stamp(commit_one(&second.engine, &table("Later"), insert("p", "r", 1)).await.unwrap());
    assert!(before.iter().all(|transaction| transaction.time < written), "the clock stands still");
    let newer = changes(&second.engine, position + 1).await.unwrap();
    assert_eq!(newer.iter().map(|transaction| transaction.position).collect::<Vec<_>>(), [position + 1, position + 2]);
    // A new standby of the new primary.
    let third = begin_standby(&second, &place.at("third"));
    assert_same(&second, &third).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_copy_larger_than_memtables_is_received() {
    let (place, first) = place_with_cars().await;
    fill(&first, (40, 40), false).await;
    let second = begin_standby(&first, &place.at("second"));
    assert_eq!(contents(&Replication::new(&second.engine).unwrap()), contents(&first.replication));
    write(&first, "later").await;
    catch_up(&first, &second);
    second.engine.close().await.unwrap();
    drop(second);
    let second = standby(&place.at("second"));
    assert_eq!(all(&second.engine, &table("Cars")).await.len(), 1601);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_base_copy_continues() {
    let mut random = Random::from_environment(SEED);
    let place = Place::new();
    let (first, folder) = (primary(&place.at("first")), place.at("second"));
    create_cars(&first).await;
    fill(&first, (40, 40), false).await;
    assert!(StandbyFolder::resume(&folder).unwrap().is_none());
    assert!(!folder.exists());
    let hello = new_hello(false);
    let lineage = first.replication.admit(&hello).unwrap();
    let copy = first.replication.log.base_copy().unwrap();
    let kept = first.replication.log.keep_after(copy.sequence());
    let expected = contents(&first.replication);
    let standby_id = (hello.standby, Awaited::Other);
    let mut filled = StandbyFolder::begin(&folder, standby_id, &lineage, copy.sequence()).unwrap();
    let (mut received, mut whole, mut left) = (0, 0, random.index(10));
    let (mut longest, mut interruptions) = (None, 0);
    while let Some(chunk) = chunk_after(&copy, filled.last_key()).unwrap() {
        assert_eq!(chunk_after(&copy, filled.last_key()).unwrap().as_ref(), Some(&chunk), "it can be asked for again");
        add_chunk(&mut filled, &chunk).unwrap();
        let repeated = add_chunk(&mut filled, &chunk);
        assert!(matches!(repeated, Err(AppendError::Frame(_))), "{repeated:?}");
        received += 1;
        if filled.last_key() > longest.as_deref() {
            longest = filled.last_key().map(<[u8]>::to_vec);
            whole += 1;
            left = left.saturating_sub(1);
        }
        if left == 0 {
            // It stops without flushing anything, as if it had been killed. The primary is written in the meantime.
            drop(filled);
            commit_one(&first.engine, &table("Cars"), upsert("late", "r", 1)).await.unwrap();
            filled = StandbyFolder::resume(&folder).unwrap().unwrap();
            assert_eq!((filled.id(), filled.sequence()), (hello.standby, copy.sequence()));
            assert!(filled.last_key() <= longest.as_deref());
            (left, interruptions) = (15 + random.index(20), interruptions + 1);
        }
    }
    // What is not stored when it stops is less than a memtable.
    assert!(interruptions > 1 && received <= whole + 17 * interruptions, "{received} of {whole}, {interruptions}");
    // It stops while it completes the folder.
    let state = std::fs::read(folder.join("rowhouse.restoring")).unwrap();
    filled.finish().unwrap();
    std::fs::write(folder.join("rowhouse.restoring"), state).unwrap();
    let filled = StandbyFolder::resume(&folder).unwrap().unwrap();
    assert_eq!(chunk_after(&copy, filled.last_key()).unwrap(), None);
    filled.finish().unwrap();
    assert!(matches!(StandbyFolder::resume(&folder).map(drop), Err(OpenError::InUse { .. })));

    let second = standby(&folder);
    assert_eq!(second.log.lineage().role, Role::Standby { id: hello.standby, awaited: Awaited::Other });
    assert_eq!(contents(&Replication::new(&second.engine).unwrap()), expected);
    catch_up(&first, &second);
    kept.advance(second.log.synced());
    assert_same(&first, &second).await;
}

#[tokio::test]
async fn a_damaged_state_of_a_base_copy_begins_again() {
    let place = Place::new();
    let (first, folder) = (primary(&place.at("first")), place.at("second"));
    let begin = || {
        let (id, lineage) = ((Identity::random(), Awaited::None), first.replication.lineage());
        drop(StandbyFolder::begin(&folder, id, &lineage, 1).unwrap());
    };
    begin();
    assert!(StandbyFolder::resume(&folder).unwrap().is_some());
    let state = std::fs::read_to_string(folder.join("rowhouse.restoring")).unwrap();
    let primary_state = state.replace("standby ", "primary ");
    for damaged in ["", "base copy", "base copy x\n", &state[..state.len() - 1], &primary_state] {
        std::fs::write(folder.join("rowhouse.restoring"), damaged).unwrap();
        assert!(StandbyFolder::resume(&folder).unwrap().is_none(), "{damaged}");
        begin();
    }
    std::fs::remove_dir_all(folder.join("tree")).unwrap();
    assert!(StandbyFolder::resume(&folder).unwrap().is_none());
    begin();
    std::fs::write(place.at("file"), "").unwrap();
    let foreign = StandbyFolder::resume(place.0.path()).map(drop);
    assert!(matches!(foreign, Err(OpenError::Foreign { .. })), "{foreign:?}");
}

#[tokio::test]
async fn a_folder_is_opened_only_in_its_role() {
    let (place, first) = place_with_cars().await;
    // A copy that is not finished is no data folder yet.
    let hello = new_hello(false);
    let lineage = first.replication.admit(&hello).unwrap();
    let copy = first.replication.log.base_copy().unwrap();
    drop(StandbyFolder::begin(&place.at("second"), (hello.standby, Awaited::None), &lineage, copy.sequence()).unwrap());
    let open = |name: &str| Embedded::open(&place.at(name), &options(), ManualClock::at(START_TICKS)).map(drop);
    let open_standby =
        |name: &str| Embedded::open_standby(&place.at(name), &options(), ManualClock::at(START_TICKS)).map(drop);
    assert!(matches!(open("second"), Err(OpenError::Restoring { .. })));
    assert!(matches!(open_standby("second"), Err(OpenError::Restoring { .. })));
    assert!(matches!(promote_folder(&place.at("second"), false), Err(OpenError::Restoring { .. })));
    let second = begin_standby(&first, &place.at("second"));
    let refused = commit_one(&second.engine, &table("Cars"), insert("p", "r", 1)).await;
    assert!(matches!(refused, Err(CommitError::Fault(Fault::ReadOnly(_)))), "{refused:?}");
    assert!(second.engine.create_table(&table("Bikes")).await.is_err());
    assert!(matches!(promote_folder(&place.at("second"), false), Err(OpenError::Locked { .. })));
    drop(second);
    assert!(matches!(open("second"), Err(OpenError::Standby { .. })));
    assert!(matches!(open_standby("first"), Err(OpenError::NotStandby { .. })));
    assert!(matches!(open_standby("missing"), Err(OpenError::NotStandby { .. })));
    assert!(!place.at("missing").exists());
    let in_use = StandbyFolder::begin(&place.at("first"), (hello.standby, Awaited::None), &lineage, 0).map(drop);
    assert!(matches!(in_use, Err(OpenError::InUse { .. })));
    promote_folder(&place.at("second"), false).unwrap();
    assert!(matches!(promote_folder(&place.at("second"), false), Err(OpenError::NotStandby { .. })));
    assert!(matches!(open_standby("second"), Err(OpenError::NotStandby { .. })));
    open("second").unwrap();
}

#[tokio::test]
async fn a_former_primary_that_is_told_refuses_writes_forever() {
    let (place, first) = place_with_cars().await;
    drop(begin_standby(&first, &place.at("second")));
    let promotion = promote_folder(&place.at("second"), false).unwrap();
    write(&first, "lost").await;
    let (log, later) = (promotion.lineage.log, promotion.lineage.newest());
    assert_eq!(refusal(first.replication.fence(Identity::random(), &later)), Refusal::OtherLog);
    let own = first.replication.lineage().newest();
    assert!(!first.replication.fence(log, &own).unwrap(), "its own epoch does not fence it");
    write(&first, "also lost").await;
    assert!(first.replication.fence(log, &later).unwrap());
    let refused = commit_one(&first.engine, &table("Cars"), insert("p", "r", 1)).await;
    assert!(matches!(refused, Err(CommitError::Fault(Fault::ReadOnly(_)))), "{refused:?}");
    assert_eq!(all(&first.engine, &table("Cars")).await.len(), 2, "reads continue");
    assert_eq!(refusal(first.replication.admit(&new_hello(false))), Refusal::Fenced);
    drop(first);
    let again = Embedded::open(&place.at("first"), &options(), ManualClock::at(START_TICKS)).map(drop);
    assert!(matches!(again, Err(OpenError::Fenced { by: 2, .. })), "{again:?}");
    assert_eq!(lineage_of(&place.at("first")).unwrap().unwrap().role, Role::Fenced { by: 2, first: Some(later.first) });
}

#[tokio::test]
async fn a_fence_can_be_ended_and_is_not_repeated() {
    let place = Place::new();
    let (first, second, behind) = primary_with_standbys(&place).await;
    let (log, own) = (first.replication.lineage().log, first.replication.lineage().newest());
    drop(second);
    let promotion = promote_folder(&place.at("second"), false).unwrap();
    let second = primary(&place.at("second"));
    write(&second, "there").await;
    write(&first, "here").await;
    let invented = Epoch { number: u64::MAX, ..promotion.lineage.newest() };
    assert!(!first.replication.fence(log, &invented).unwrap(), "no log has so many promotions");
    assert!(first.replication.fence(log, &promotion.lineage.newest()).unwrap());
    drop(first);
    assert!(matches!(promote_folder(&place.at("first"), false), Err(OpenError::Fenced { by: 2, .. })));
    let again = promote_folder(&place.at("first"), true).unwrap();
    assert_eq!((again.lineage.epoch(), again.last), (3, promotion.last + 1));
    let first = primary(&place.at("first"));
    // A delayed or repeated request does not fence it again, but it fences the server that had replaced it.
    assert!(!first.replication.fence(log, &promotion.lineage.newest()).unwrap());
    assert!(!first.replication.fence(log, &own).unwrap());
    assert!(second.replication.fence(log, &again.lineage.newest()).unwrap());
    // A standby of the former epoch follows, one of the other server does not.
    write(&first, "later").await;
    catch_up(&first, &behind);
    assert_eq!(names(&all(&behind.engine, &table("Cars")).await), ["p/both", "p/here", "p/later"]);
    let other = StandbyPosition { log, epoch: promotion.lineage.newest(), last: promotion.last };
    assert_eq!(
        refusal(first.replication.admit(&StandbyHello { has: Some(other), ..new_hello(false) })),
        Refusal::Diverged
    );
}

#[tokio::test]
async fn a_standby_of_a_later_epoch_fences_a_former_primary() {
    let place = Place::new();
    let first = primary(&place.at("first"));
    drop(begin_standby(&first, &place.at("second")));
    promote_folder(&place.at("second"), false).unwrap();
    let second = primary(&place.at("second"));
    let third = begin_standby(&second, &place.at("third"));
    assert_eq!(refusal(first.replication.admit(&hello(&third.log))), Refusal::Fenced);
    assert!(first.engine.create_table(&table("Cars")).await.is_err());
}

#[tokio::test]
async fn a_standby_follows_a_promoted_one_unless_it_has_more() {
    let place = Place::new();
    let (first, second, behind) = primary_with_standbys(&place).await;
    drop(second);
    write(&first, "lost").await;
    let ahead = begin_standby(&first, &place.at("ahead"));
    let promotion = promote_folder(&place.at("second"), false).unwrap();
    let second = primary(&place.at("second"));
    write(&second, "new").await;
    write(&second, "newer").await;
    catch_up(&second, &behind);
    assert_eq!(names(&all(&behind.engine, &table("Cars")).await), ["p/both", "p/new", "p/newer"]);
    assert_eq!(behind.log.lineage().epochs, promotion.lineage.epochs);
    let begun = promotion.lineage.epochs.iter().map(|epoch| (epoch.number, epoch.first));
    assert!(begun.eq([(1, 1), (2, promotion.last + 1)]), "{promotion:?}");
    assert_eq!(refusal(second.replication.admit(&hello(&ahead.log))), Refusal::Diverged);
    // A standby of another log, and one that is ahead of a primary that was restored from a copy.
    let other = primary(&place.at("other"));
    assert_eq!(refusal(other.replication.admit(&hello(&behind.log))), Refusal::OtherLog);
    // After a restart, the standby is in the new epoch.
    drop(behind);
    assert_eq!(standby(&place.at("behind")).log.lineage().epoch(), 2);
}

#[tokio::test]
async fn two_promoted_standbys_of_a_primary_have_different_epochs() {
    let (place, first) = place_with_cars().await;
    drop([begin_standby(&first, &place.at("second")), begin_standby(&first, &place.at("other"))]);
    let promotion = promote_folder(&place.at("second"), false).unwrap();
    assert_eq!(promote_folder(&place.at("other"), false).unwrap().last, promotion.last);
    let (second, other) = (primary(&place.at("second")), primary(&place.at("other")));
    for promoted in [&second, &other] {
        write(promoted, "r").await;
    }
    let third = begin_standby(&second, &place.at("third"));
    assert_eq!(refusal(other.replication.admit(&hello(&third.log))), Refusal::Diverged);
    // The server that is told is fenced.
    write(&other, "newer").await;
    assert!(other.replication.fence(promotion.lineage.log, &promotion.lineage.newest()).unwrap());
    write(&second, "newer").await;
}

/// The log of a new folder begins at a position that depends on the clock.
#[tokio::test]
async fn a_standby_begins_with_a_primary_without_data() {
    let place = Place::new();
    let first = open_primary(&place.at("first"), &options(), YEAR_2027);
    assert!(first.replication.log.synced() > 1_000_000);
    let second = begin_standby(&first, &place.at("second"));
    assert_eq!(second.log.synced(), first.replication.log.synced());
    drop(second);
    let second = standby(&place.at("second"));
    create_cars(&first).await;
    write(&first, "r").await;
    catch_up(&first, &second);
    assert_same(&first, &second).await;
}

/// A reader of the former primary has seen what the promoted standby does not have. It must not take later transactions
/// for the continuation.
#[tokio::test]
async fn positions_of_lost_transactions_are_not_used_again() {
    let place = Place::new();
    let (first, second, behind) = primary_with_standbys(&place).await;
    catch_up(&first, &behind);
    drop(second);
    for row in ["lost", "also lost"] {
        write(&first, row).await;
    }
    let seen = first.engine.change_log().unwrap().kept().next;
    drop(first);
    let last = promote_folder(&place.at("second"), false).unwrap().last;
    assert_eq!(seen, last + 3);
    // Opening the folder twice before anything is written skips the positions once.
    for _ in 0..2 {
        open_primary(&place.at("second"), &options(), YEAR_2027).engine.close().await.unwrap();
    }
    let second = open_primary(&place.at("second"), &options(), YEAR_2027);
    for row in ["new", "newer", "newest"] {
        write(&second, row).await;
    }
    catch_up(&second, &behind);
    let third = begin_standby(&second, &place.at("third"));
    assert_eq!(behind.log.synced(), second.replication.log.synced());
    assert_same(&second, &behind).await;
    assert_same(&second, &third).await;
    for engine in [&second.engine, &behind.engine] {
        // Whoever has not read more than both have continues.
        let found = changes(engine, last + 1).await.unwrap();
        assert!(found.len() == 3 && found[0].position > seen + 1_000_000, "{found:?}");
        for lost in [last + 2, seen] {
            let dropped = changes(engine, lost).await;
            assert!(matches!(dropped, Err(ChangesError::Dropped(from)) if from == found[0].position), "{dropped:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_acknowledged_after_the_standby_has_it() {
    let place = Place::new();
    let first = waiting_primary(&place.at("first"), TIMEOUT);
    let second = begin_standby(&first, &place.at("second"));
    let cars = table("Cars");
    let created = first.engine.create_table(&cars);
    let mut synced = first.replication.log.watch();
    let confirm = async {
        synced.wait_for(|synced| *synced >= 1).await.unwrap();
        assert_eq!(first.engine.table(&table("Cars")).await.unwrap(), None, "it is not visible before");
        // Another standby's confirmation does not count.
        first.replication.confirm(Identity::random(), 1);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(first.engine.table(&table("Cars")).await.unwrap(), None);
        catch_up(&first, &second);
    };
    let (created, ()) = tokio::join!(created, confirm);
    created.unwrap();
    assert!(second.engine.table(&table("Cars")).await.unwrap().is_some());
    assert_eq!(refusal(first.replication.admit(&new_hello(false))), Refusal::OtherStandby);
    // A new standby takes over when it has its copy.
    first.replication.admit(&new_hello(true)).unwrap();
    first.replication.admit(&hello(&second.log)).unwrap();
    first.replication.admit(&StandbyHello { has: hello(&second.log).has, ..new_hello(true) }).unwrap();
    assert_eq!(refusal(first.replication.admit(&hello(&second.log))), Refusal::OtherStandby, "it was replaced");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_does_not_wait_for_a_standby_that_is_behind() {
    let place = Place::new();
    let first = primary(&place.at("first"));
    let behind = begin_standby(&first, &place.at("behind"));
    let awaited = |first: &Primary| first.replication.awaited(behind.log.id(), behind.log.synced());
    create_cars(&first).await;
    drop(first);
    let first = waiting_primary(&place.at("first"), TIMEOUT);
    first.replication.admit(&hello(&behind.log)).unwrap();
    assert_eq!(first.replication.lineage().role, Role::Primary { confirming: None });
    assert_eq!(awaited(&first), Awaited::Other);
    catch_up(&first, &behind);
    assert_eq!(first.replication.lineage().role, Role::Primary { confirming: Some(behind.log.id()) });
    assert_eq!(awaited(&first), Awaited::This);
    assert_eq!(first.replication.awaited(Identity::random(), behind.log.synced()), Awaited::Other);
    // Without waiting, the primary acknowledges what the standby does not have.
    drop(first);
    let first = primary(&place.at("first"));
    assert_eq!(awaited(&first), Awaited::None);
    write(&first, "r").await;
    drop(first);
    let first = waiting_primary(&place.at("first"), TIMEOUT);
    assert_eq!(awaited(&first), Awaited::Other);
    catch_up(&first, &behind);
    assert_eq!(awaited(&first), Awaited::This);
}

#[tokio::test]
async fn a_standby_that_does_not_count_is_promoted_only_despite_loss() {
    let (place, first) = place_with_cars().await;
    let written = write(&first, "last").await;
    // What the primary says last counts.
    for awaited in [Awaited::CutOff, Awaited::Other, Awaited::This, Awaited::None] {
        let second = begin_standby(&first, &place.at("second"));
        for said in [Awaited::Other, awaited] {
            set_awaited(&second.log, said).unwrap();
        }
        drop(second);
        let promoted = promote_folder(&place.at("second"), false);
        let is_refused = match &promoted {
            Err(OpenError::NotAwaited { last_stamp, .. }) => awaited == Awaited::Other && *last_stamp == written,
            Err(OpenError::CutOff { last_stamp, .. }) => awaited == Awaited::CutOff && *last_stamp == written,
            Ok(promoted) => {
                assert_eq!(promoted.last_stamp, written);
                false
            }
            other => panic!("{awaited:?}: {other:?}"),
        };
        assert_eq!(is_refused, matches!(awaited, Awaited::Other | Awaited::CutOff), "{awaited:?}: {promoted:?}");
        if is_refused {
            assert_eq!(standby(&place.at("second")).log.lineage().epoch(), 1, "the folder is unchanged");
            promote_folder(&place.at("second"), true).unwrap();
        }
        std::fs::remove_dir_all(place.at("second")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_standby_writes_are_refused_until_it_is_back() {
    let place = Place::new();
    // The standby confirms a write within this time, also on a busy machine.
    let timeout = Duration::from_secs(10);
    let first = waiting_primary(&place.at("first"), timeout);
    let second = begin_standby(&first, &place.at("second"));
    let created = first.engine.create_table(&table("Cars")).await;
    assert!(created.is_err(), "no standby confirms");
    assert_eq!(first.engine.table(&table("Cars")).await.unwrap(), None, "what is not confirmed is not shown");
    let began = Instant::now();
    let refused = commit_one(&first.engine, &table("Cars"), insert("p", "r", 1)).await;
    assert!(matches!(refused, Err(CommitError::Fault(Fault::Suspended))), "{refused:?}");
    assert!(began.elapsed() < timeout, "it is refused at once");
    catch_up(&first, &second);
    let began = Instant::now();
    while first.engine.table(&table("Cars")).await.unwrap().is_none() {
        assert!(began.elapsed() < TIMEOUT, "writes do not resume");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The next write fails too unless the standby follows.
    let first = std::sync::Arc::new(first);
    let follower = std::sync::Arc::clone(&first);
    let follows = tokio::task::spawn_blocking(move || {
        let until = Instant::now() + TIMEOUT;
        while second.log.synced() < 2 && Instant::now() < until {
            catch_up(&follower, &second);
            std::thread::sleep(Duration::from_millis(1));
        }
        second
    });
    write(&first, "r").await;
    let second = follows.await.unwrap();
    assert_eq!(names(&all(&second.engine, &table("Cars")).await), ["p/r"]);
}

#[tokio::test]
async fn damaged_batches_and_chunks_are_refused() {
    let (place, first) = place_with_cars().await;
    let second = begin_standby(&first, &place.at("second"));
    for row in ["a", "b", "c"] {
        write(&first, row).await;
    }
    let from = second.log.synced() + 1;
    let good = first.replication.read(from, 1 << 20).unwrap().unwrap();
    assert_eq!((good.first, good.count, good.last()), (from, 3, from + 2));
    let mut bad = vec![
        RecordBatch { first: from + 1, ..good.clone() },
        RecordBatch { count: 4, ..good.clone() },
        RecordBatch { count: 2, ..good.clone() },
        RecordBatch { records: good.records[..good.records.len() - 1].to_vec(), ..good.clone() },
    ];
    for at in [0, 4, 9, 25, 33, good.records.len() - 1] {
        let mut damaged = good.clone();
        damaged.records[at] ^= 0x40;
        bad.push(damaged);
    }
    for batch in bad {
        let refused = second.log.append(&batch);
        assert!(matches!(refused, Err(AppendError::Frame(_))), "{refused:?}");
        assert_eq!(second.log.synced(), from - 1, "nothing of it was written");
    }
    assert_eq!(second.log.append(&good).unwrap(), from + 2);
    let repeated = second.log.append(&good);
    assert!(matches!(repeated, Err(AppendError::Frame(_))), "{repeated:?}");
    let copy = contents(&first.replication).1;
    for end in 1..copy.len().min(200) {
        let lineage = first.replication.lineage();
        let mut filled =
            StandbyFolder::begin(&place.at("third"), (Identity::random(), Awaited::None), &lineage, from).unwrap();
        let added = add_chunk(&mut filled, &copy[..end]);
        assert!(matches!(added, Err(AppendError::Frame(_))) || added.is_ok());
    }
}

#[tokio::test]
async fn what_the_primary_dropped_needs_a_new_copy() {
    let place = Place::new();
    let options = EmbeddedOptions { kept_log: KeptLog::Nothing, ..options() };
    let first = open_primary(&place.at("first"), &options, START_TICKS);
    let second = begin_standby(&first, &place.at("second"));
    create_cars(&first).await;
    let began = Instant::now();
    loop {
        commit_one(&first.engine, &table("Cars"), upsert("p", "r", 1)).await.unwrap();
        if let Err(error) = first.replication.admit(&hello(&second.log)) {
            assert_eq!(error.downcast_ref(), Some(&Refusal::Dropped), "{error:#}");
            break;
        }
        assert!(began.elapsed() < TIMEOUT, "the log is never released");
        fill(&first, (70, 30), true).await;
    }
}

#[tokio::test]
async fn a_standby_appends_nothing_to_a_full_disk() {
    let (place, first) = place_with_cars().await;
    drop(begin_standby(&first, &place.at("second")));
    write(&first, "r").await;
    let full = EmbeddedOptions { min_free_bytes: u64::MAX, ..options() };
    let (engine, log) = Embedded::open_standby(&place.at("second"), &full, ManualClock::at(START_TICKS)).unwrap();
    let synced = log.synced();
    let batch = first.replication.read(synced + 1, 10_000).unwrap().unwrap();
    for _ in 0..2 {
        let refused = log.append(&batch);
        assert!(matches!(refused, Err(AppendError::DiskFull)), "{refused:?}");
    }
    assert_eq!(log.synced(), synced);
    drop((engine, log));
    let second = standby(&place.at("second"));
    catch_up(&first, &second);
    assert_eq!(second.log.synced(), first.replication.log.synced());
}

/// Writes entities with a large property: 40 batches with different keys are several times as large as a memtable, 70
/// with the same keys as large as a segment of the log.
async fn fill(primary: &Primary, (batches, rows): (i64, i64), keys_repeat: bool) {
    let text = "x".repeat(32_000);
    for batch in 0..batches {
        let prefix = if keys_repeat { 0 } else { batch };
        let mutations = (0..rows).map(|row| {
            let mut properties = properties(&[("value", row)]);
            properties.push("text", model::EdmValue::String(&text));
            model::Mutation::InsertOrReplace { key: key("p", &format!("{prefix:03}-{row:03}")), properties }
        });
        let transaction = model::Transaction::new(mutations.collect()).unwrap();
        primary.engine.commit(&table("Cars"), transaction).await.unwrap();
    }
}
