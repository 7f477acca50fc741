use super::coverage::Continuation;
use super::follow::FollowedLog;
use super::repository::{LogPosition, PartContent, PartName};
use super::restore::RestoreSummary;
use super::snapshot::{NoServer, request_server_snapshot};
use super::*;
use crate::terminal::Progress;
use engine::{Engine, KeepChanges, Memory, SnapshotTable, Snapshots, TableKey};
use engine_embedded::{Durability, Embedded, EmbeddedOptions, KeptLog};
use model::clock::SystemClock;
use model::{
    AccountName, Clock, Condition, CorsRule, CorsRules, EdmValue, EntityKey, Mutation, RecordBuilder, RecordView,
    Retention, ServiceProperties, ServicePropertiesUpdate, StoredAccessPolicies, StoredAccessPolicy, TableName,
    TableSettingsUpdate, Transaction,
};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

#[test]
fn a_bare_name_is_in_the_current_folder() {
    let here = std::env::current_dir().unwrap();
    assert!(is_inside(Path::new("no-such-folder"), &here));
    assert!(is_inside(Path::new("no-such-folder"), Path::new(".")));
    assert!(!is_inside(Path::new("../no-such-folder"), &here));
    assert!(!is_inside(Path::new("no-such-folder"), Path::new("no-such-data")));
}

#[derive(Debug, Clone)]
enum Operation {
    CreateTable(usize),
    DeleteTable(usize),
    /// Table, partition, rows, value.
    Put(usize, u8, Vec<u8>, i64),
    Delete(usize, u8, u8),
    SetPolicies(usize, u8),
    SetRetention(usize, bool),
    SetProperties(u8),
    /// One step of `backup --follow`.
    Follow,
    /// `backup --follow` is stopped, and started again later.
    Restart,
    BackUp,
    /// A backup with `--keep`.
    BackUpAndKeep(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let table = || 0..3_usize;
    prop_oneof![
        2 => table().prop_map(Operation::CreateTable),
        1 => table().prop_map(Operation::DeleteTable),
        8 => (table(), 0..3_u8, prop::collection::btree_set(0..9_u8, 1..4), any::<i64>())
            .prop_map(|(table, partition, rows, value)| Operation::Put(table, partition, rows.into_iter().collect(), value)),
        8 => (table(), 0..3_u8, 0..9_u8).prop_map(|(table, partition, row)| Operation::Delete(table, partition, row)),
        1 => (table(), 0..9_u8).prop_map(|(table, policy)| Operation::SetPolicies(table, policy)),
        1 => (table(), any::<bool>()).prop_map(|(table, is_set)| Operation::SetRetention(table, is_set)),
        1 => (0..9_u8).prop_map(Operation::SetProperties),
        3 => Just(Operation::Follow),
        1 => Just(Operation::Restart),
        1 => Just(Operation::BackUp),
        1 => (1..4_usize).prop_map(Operation::BackUpAndKeep),
    ]
}

/// A key inside the table, and a record.
type StoredEntity = (Vec<u8>, Vec<u8>);

/// Everything in an engine, except what differs after a restore.
#[derive(Debug, PartialEq)]
struct State {
    properties: Vec<(AccountName, ServiceProperties)>,
    tables: Vec<(SnapshotTable, Vec<StoredEntity>)>,
}

/// Returns the state, and the position after it.
fn state(snapshots: &dyn Snapshots) -> (State, u64) {
    let snapshot = snapshots.take().unwrap();
    let contents = snapshot.contents();
    let mut tables = Vec::new();
    for (index, table) in contents.tables.iter().enumerate() {
        let mut entities = Vec::new();
        let mut add = |key: &[u8], record: &[u8]| {
            entities.push((key.to_vec(), record.to_vec()));
            Ok(())
        };
        snapshot.entities(index, &mut add).unwrap();
        tables.push((table.clone(), entities));
    }
    (State { properties: contents.properties.clone(), tables }, contents.position.unwrap())
}

fn table(number: usize) -> TableKey {
    let name = ["Cars", "Log", "Other"][number];
    TableKey { account: AccountName::new("account1").unwrap(), name: TableName::new(name).unwrap() }
}

/// A server with a data folder and a repository.
struct Place {
    runtime: Runtime,
    folder: TempDir,
    durability: Durability,
    engine: Option<Embedded>,
    control: Option<ControlSocket>,
    followed: Option<FollowedLog>,
}

impl Place {
    fn new() -> Self {
        Self::with(Durability::Sync)
    }

    fn with(durability: Durability) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut place = Self { runtime, folder, durability, engine: None, control: None, followed: None };
        place.start();
        place
    }

    fn start(&mut self) {
        let keep = KeepChanges { age: Duration::from_hours(1), bytes: 1 << 30 };
        let (kept_log, durability) = (KeptLog::Within(keep), self.durability);
        let options = EmbeddedOptions { kept_log, durability, ..EmbeddedOptions::default() };
        let engine = Embedded::open(&self.data(), &options, SystemClock).unwrap();
        let _guard = self.runtime.enter();
        self.control = Some(ControlSocket::start(&self.data(), engine.snapshots(), engine.dated_change_log()).unwrap());
        self.engine = Some(engine);
    }

    fn stop(&mut self) {
        self.control = None;
        if let Some(engine) = self.engine.take() {
            self.runtime.block_on(engine.close()).unwrap();
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn address(&self) -> RepositoryAddress {
        RepositoryAddress::Folder(self.repository_path())
    }

    fn repository_path(&self) -> PathBuf {
        self.folder.path().join("backups")
    }

    fn repository(&self) -> Repository {
        Repository::open(&self.address()).unwrap()
    }

    fn engine(&self) -> &Embedded {
        self.engine.as_ref().unwrap()
    }

    fn follow(&mut self) -> anyhow::Result<Vec<FollowStep>> {
        let mut steps = Vec::new();
        let report = |step| {
            steps.push(step);
            Ok(())
        };
        let every = Duration::from_secs(1);
        let mut follower = Follower { data: self.data(), to: self.address(), every, keep: None, report };
        follower.step(&mut self.followed, &Progress::new("following", 0), &AtomicBool::new(false))?;
        Ok(steps)
    }

    /// Makes an ordinary backup. Returns the position after it.
    fn back_up(&self, keep: Option<usize>) -> u64 {
        let repository = Repository::create_or_open(&self.address()).unwrap();
        let input = request_server_snapshot(&self.data()).unwrap();
        let progress = Progress::new("backing up", 0);
        let summary = create::create(input, &repository, &progress, &AtomicBool::new(false)).unwrap();
        if let Some(count) = keep {
            repository.remove_old(count, &summary.id).unwrap();
        }
        summary.log.unwrap().position
    }

    fn restore(&self, name: &str, target: Target) -> anyhow::Result<(State, RestoreSummary)> {
        self.restore_found(name, coverage::find(&self.repository(), target)?, false)
    }

    fn restore_latest(&self, name: &str) -> anyhow::Result<State> {
        Ok(self.restore_found(name, coverage::find_latest(&self.repository())?, false)?.0)
    }

    fn restore_found(
        &self,
        name: &str,
        found: CoveringBackup,
        without_retention: bool,
    ) -> anyhow::Result<(State, RestoreSummary)> {
        let CoveringBackup { manifest, log, .. } = found;
        let scratch = self.folder.path().to_owned();
        let source = RestoreSource { repository: self.repository(), manifest, log, scratch, without_retention };
        let folder = self.folder.path().join(name);
        let progress = Progress::new("restoring", 0);
        let summary =
            restore::restore(&source, &RestoreSelection::default(), &folder, &progress, &AtomicBool::new(false))?;
        Ok((self.state_of(&folder), summary))
    }

    fn state_of(&self, folder: &Path) -> State {
        let engine = Embedded::open(folder, &EmbeddedOptions::default(), SystemClock).unwrap();
        let (found, _) = state(&*engine.snapshots());
        self.runtime.block_on(engine.close()).unwrap();
        found
    }

    /// Errors, such as of a missing table, are part of the history.
    fn apply(&self, operation: &Operation) {
        let engine = self.engine();
        let key = |partition: u8, row: u8| EntityKey::new(&partition.to_string(), &row.to_string()).unwrap();
        self.runtime.block_on(async {
            match operation {
                Operation::CreateTable(number) => drop(engine.create_table(&table(*number)).await),
                Operation::DeleteTable(number) => drop(engine.delete_table(&table(*number)).await),
                Operation::Put(number, partition, rows, value) => {
                    let put = |row: &u8| {
                        let mut properties = RecordBuilder::default();
                        properties.push("value", EdmValue::Int64(*value));
                        Mutation::InsertOrReplace { key: key(*partition, *row), properties }
                    };
                    let transaction = Transaction::new(rows.iter().map(put).collect()).unwrap();
                    drop(engine.commit(&table(*number), transaction).await);
                }
                Operation::Delete(number, partition, row) => {
                    let delete = Mutation::Delete { key: key(*partition, *row), condition: Condition::Any };
                    drop(engine.commit(&table(*number), Transaction::single(delete)).await);
                }
                Operation::SetPolicies(number, policy) => {
                    let policy = StoredAccessPolicy::new(&policy.to_string()).unwrap();
                    let policies = StoredAccessPolicies::new(vec![policy]).unwrap();
                    drop(engine.set_policies(&table(*number), policies).await);
                }
                Operation::SetRetention(number, is_set) => {
                    let retention = if *is_set { Retention::by_property("Ends", 7) } else { None };
                    let update = TableSettingsUpdate { retention: Some(retention), ..TableSettingsUpdate::default() };
                    drop(engine.update_settings(&table(*number), update).await);
                }
                Operation::SetProperties(number) => {
                    let rule = CorsRule::new(&format!("https://{number}.example"), "GET", "", "", 60).unwrap();
                    let cors = Some(CorsRules::new(vec![rule]).unwrap());
                    let update = ServicePropertiesUpdate { cors, ..ServicePropertiesUpdate::default() };
                    drop(engine.update_service_properties(&table(0).account, update).await);
                }
                _ => {}
            }
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A restore at any time and any position leads to the state that the engine had, and never to another one.
    #[test]
    fn a_restored_state_is_the_state_that_the_engine_had(
        operations in prop::collection::vec(operation(), 1..80),
        chosen in prop::collection::vec(any::<prop::sample::Index>(), 4),
    ) {
        let mut place = Place::new();
        let mut history = Vec::new();
        // The positions after the backups.
        let mut backups = Vec::new();
        // Most entities are in the first backup.
        let fill = |number| (0..3).map(move |partition| Operation::Put(number, partition, (0..9).collect(), 0));
        let mut all: Vec<_> = (0..2).flat_map(|number| [Operation::CreateTable(number)].into_iter().chain(fill(number))).collect();
        all.extend(operations);
        for operation in all.iter().chain([&Operation::Follow]) {
            match operation {
                Operation::Follow => {
                    if matches!(place.follow().unwrap()[..], [FollowStep::BackedUp(..), ..]) {
                        backups.push(state(&*place.engine().snapshots()).1);
                    }
                }
                Operation::Restart => place.followed = None,
                Operation::BackUp => backups.push(place.back_up(None)),
                Operation::BackUpAndKeep(count) => {
                    backups.push(place.back_up(Some(*count)));
                    backups.drain(..backups.len().saturating_sub(*count));
                }
                change => place.apply(change),
            }
            let (state, next) = state(&*place.engine().snapshots());
            history.push((state, next, SystemClock.now()));
        }
        // The last time is covered, too.
        place.follow().unwrap();
        prop_assert!(verify(&place.address(), true, false).unwrap());
        let covered = backups[0];
        for (number, index) in chosen.into_iter().enumerate() {
            let (expected, next, time) = index.get(&history);
            // The exact time of the last transaction, if it wrote entities.
            let records = expected.tables.iter().flat_map(|(_, entities)| entities).map(|(_, record)| record);
            let stamps = records.map(|record| RecordView::new(record).unwrap().timestamp());
            let exact = stamps.max().filter(|stamp| {
                !history.iter().any(|(_, other, at)| other < next && at >= stamp)
            });
            let mut targets = vec![("position", Target::Position(next - 1)), ("time", Target::Time(*time))];
            targets.extend(exact.map(|stamp| ("exact", Target::Time(stamp))));
            for (kind, target) in targets {
                match place.restore(&format!("{kind}{number}"), target) {
                    Ok((restored, _)) => prop_assert_eq!(&restored, expected, "{}", target),
                    Err(error) => {
                        prop_assert!(error.to_string().contains("it covers"), "{error:#}");
                        // A state may have the position of the backup, but an earlier time.
                        let is_covered = covered < *next || (covered == *next && kind == "position");
                        prop_assert!(!is_covered, "{target} is covered from {covered}: {error:#}");
                    }
                }
            }
        }
    }
}

fn put(place: &Place, value: i64) -> (State, u64, DateTime) {
    place.apply(&Operation::Put(0, 1, vec![1, 2], value));
    let (state, next) = state(&*place.engine().snapshots());
    (state, next, SystemClock.now())
}

#[test]
fn a_target_outside_of_the_repository_is_refused_with_what_it_covers() {
    let mut place = Place::new();
    place.apply(&Operation::CreateTable(0));
    let before = put(&place, 1);
    place.back_up(None);
    let error = place.restore("none", Target::Time(SystemClock.now())).unwrap_err().to_string();
    assert!(error.contains("contains no log"), "{error}");
    let first = put(&place, 2);
    place.follow().unwrap();
    let last = put(&place, 3);
    for target in
        [Target::Position(before.1 - 2), Target::Time(before.2), Target::Position(last.1), Target::Time(last.2)]
    {
        let error = place.restore("none", target).unwrap_err().to_string();
        let range = format!("(positions {} to {})", before.1 - 1, first.1 - 1);
        assert!(error.contains(&target.to_string()) && error.contains(&range), "{error}");
    }
    assert_eq!(place.restore("first", Target::Time(first.2)).unwrap().0, first.0);
    assert_eq!(place.restore("before", Target::Position(before.1 - 1)).unwrap().0, before.0);
    for (text, told) in [("yesterday", "neither a time nor a position"), ("99999999999999999999", "too large")] {
        assert!(Target::parse(text).unwrap_err().to_string().contains(told));
    }
    for text in ["4711", "00000000000000004711-002"] {
        assert_eq!(Target::parse(text).unwrap(), Target::Position(4711));
    }
}

#[test]
fn an_idle_server_is_covered_until_now_by_a_single_file() {
    let mut place = Place::new();
    place.apply(&Operation::CreateTable(0));
    let (expected, ..) = put(&place, 1);
    place.follow().unwrap();
    for _ in 0..3 {
        place.follow().unwrap();
    }
    let now = SystemClock.now();
    assert!(place.restore("none", Target::Time(now)).is_err());
    // Started again, without knowledge of the part that it replaces.
    place.followed = None;
    place.follow().unwrap();
    assert_eq!(place.restore("new", Target::Time(now)).unwrap().0, expected);
    let parts = place.repository().parts().unwrap();
    assert_eq!(parts.values().map(Vec::len).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_log_that_no_longer_reaches_the_repository_is_continued_from_a_new_backup() {
    let mut place = Place::new();
    place.stop();
    std::fs::remove_dir_all(place.data()).unwrap();
    std::fs::create_dir(place.data()).unwrap();
    // Keeps only the last transaction.
    let engine = Memory::new(SystemClock).keep_changes(KeepChanges { age: Duration::from_hours(1), bytes: 1 });
    let guard = place.runtime.enter();
    place.control = Some(ControlSocket::start(&place.data(), engine.snapshots(), engine.dated_change_log()).unwrap());
    drop(guard);
    let change = |place: &Place, number: u8| {
        let rule = CorsRule::new(&format!("https://{number}.example"), "GET", "", "", 60).unwrap();
        let cors = Some(CorsRules::new(vec![rule]).unwrap());
        let update = ServicePropertiesUpdate { cors, ..ServicePropertiesUpdate::default() };
        place.runtime.block_on(engine.update_service_properties(&table(0).account, update)).unwrap();
        let (state, next) = state(&*engine.snapshots());
        (state, next, SystemClock.now())
    };
    change(&place, 1);
    place.follow().unwrap();
    let shipped = change(&place, 2);
    place.follow().unwrap();
    let before_gap = SystemClock.now();
    place.follow().unwrap();
    let lost = change(&place, 3);
    change(&place, 4);
    let steps = place.follow().unwrap();
    assert!(matches!(steps[..], [FollowStep::BackedUp(..), FollowStep::Added { .. }]), "{steps:?}");
    let after = change(&place, 5);
    place.follow().unwrap();
    for (name, (state, next, time)) in [("shipped", &shipped), ("after", &after)] {
        assert_eq!(&place.restore(name, Target::Position(next - 1)).unwrap().0, state);
        assert_eq!(&place.restore(&format!("{name}-time"), Target::Time(*time)).unwrap().0, state);
    }
    let error = place.restore("none", Target::Position(lost.1 - 1)).unwrap_err().to_string();
    assert_eq!(error.matches("(positions").count(), 2, "{error}");
    // The part that says that nothing happened until the gap is still there, even after a second gap and a restart.
    assert_eq!(place.restore("before-gap", Target::Time(before_gap)).unwrap().0, shipped.0);
    let before_second_gap = SystemClock.now();
    place.follow().unwrap();
    change(&place, 6);
    change(&place, 7);
    place.followed = None;
    let steps = place.follow().unwrap();
    assert!(matches!(steps[..], [FollowStep::BackedUp(..), FollowStep::Added { .. }]), "{steps:?}");
    assert_eq!(place.restore("before-gaps", Target::Time(before_gap)).unwrap().0, shipped.0);
    assert_eq!(place.restore("before-second-gap", Target::Time(before_second_gap)).unwrap().0, after.0);
    assert!(verify(&place.address(), true, false).unwrap());
}

#[test]
fn logs_of_different_folders_are_not_mixed_up() {
    let mut place = Place::new();
    place.apply(&Operation::CreateTable(0));
    place.follow().unwrap();
    let (expected, next, _) = put(&place, 1);
    place.follow().unwrap();
    // The data folder is replaced by a restored one, whose positions begin again.
    place.restore("restored", Target::Position(next - 1)).unwrap();
    place.stop();
    std::fs::remove_dir_all(place.data()).unwrap();
    std::fs::rename(place.folder.path().join("restored"), place.data()).unwrap();
    place.start();
    assert!(place.follow().unwrap_err().to_string().contains("a different log"));
    place.followed = None;
    assert_eq!(place.follow().unwrap().len(), 2, "a backup and a part");
    for value in 2..9 {
        let (state, _, time) = put(&place, value);
        place.follow().unwrap();
        assert_eq!(place.restore(&format!("{value}"), Target::Time(time)).unwrap().0, state);
    }
    assert_eq!(place.repository().parts().unwrap().len(), 2);
    assert_eq!(expected.tables.len(), 1);
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, target) = (entry.as_ref().unwrap(), to.join(entry.as_ref().unwrap().file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn two_histories_are_not_mixed_if_an_old_copy_of_the_folder_is_put_back() {
    // The number of transactions that are shipped, besides those in the backup.
    for shipped in [3, 0] {
        let mut place = Place::new();
        place.apply(&Operation::CreateTable(0));
        put(&place, 0);
        place.stop();
        let copy = place.folder.path().join("copy");
        copy_folder(&place.data(), &copy);
        place.start();
        put(&place, 1);
        place.follow().unwrap();
        (0..shipped).for_each(|value| drop(put(&place, 10 + value)));
        place.follow().unwrap();
        let next = state(&*place.engine().snapshots()).1;
        let mut highest = next;
        // The log is shorter than the repository, as long, and longer.
        for more in [1, 1 + shipped, 4 + shipped] {
            place.stop();
            std::fs::remove_dir_all(place.data()).unwrap();
            copy_folder(&copy, &place.data());
            place.start();
            place.followed = None;
            (0..more).for_each(|value| drop(put(&place, 20 + value)));
            let reached = state(&*place.engine().snapshots()).1;
            highest = highest.max(reached);
            let error = place.follow().unwrap_err().to_string();
            assert!(error.contains("does not continue"), "{shipped}, {reached} of {next}: {error}");
            assert!(error.contains("rowhouse.log-id"), "{error}");
        }
        place.stop();
        std::fs::remove_file(place.data().join("rowhouse.log-id")).unwrap();
        std::fs::remove_dir_all(place.data().join("archive")).unwrap();
        place.start();
        place.followed = None;
        assert_eq!(place.follow().unwrap().len(), 2, "a backup and a part");
        let (expected, after, time) = put(&place, 40);
        assert!(after > highest + 10, "no position is used again");
        place.follow().unwrap();
        assert_eq!(place.restore("after", Target::Time(time)).unwrap().0, expected);
        assert!(verify(&place.address(), true, false).unwrap());
    }
}

/// Three entities that have expired, and one that has not.
fn put_expiring(place: &Place) {
    let ends = |year| DateTime::parse(&format!("{year}-01-01T00:00:00Z")).unwrap();
    for (row, year) in [("1", 2001), ("2", 2002), ("3", 2003), ("4", 9000)] {
        let mut properties = RecordBuilder::default();
        properties.push("Ends", EdmValue::DateTime(ends(year)));
        let put = Mutation::InsertOrReplace { key: EntityKey::new("p", row).unwrap(), properties };
        place.runtime.block_on(place.engine().commit(&table(0), Transaction::single(put))).unwrap();
    }
}

#[test]
fn expired_entities_are_counted_and_exist_again_without_the_retention() {
    let mut place = Place::new();
    place.apply(&Operation::CreateTable(0));
    place.follow().unwrap();
    put_expiring(&place);
    place.apply(&Operation::SetRetention(0, true));
    place.follow().unwrap();
    let find = || coverage::find_latest(&place.repository()).unwrap();
    let (with, summary) = place.restore_found("with", find(), false).unwrap();
    assert_eq!(summary.expired, [(table(0), 3)]);
    assert!(with.tables[0].0.settings.retention.is_some());
    let (without, summary) = place.restore_found("without", find(), true).unwrap();
    assert_eq!((summary.expired, without.tables[0].0.settings.retention.is_some()), (Vec::new(), false));
    assert_eq!((without.tables[0].1.len(), &without.tables[0].1), (4, &with.tables[0].1));
    // Tables that are copied into another place, from the log and from a backup without one.
    for (log, choice) in [("log", ["--to", "latest"]), ("backup", ["--backup", "latest"])] {
        place.back_up(None);
        for (options, count) in [(vec![], 1), (vec!["--without-retention"], 4)] {
            let into = place.folder.path().join(format!("{log}{count}"));
            let (from, into_text) = (place.repository_path(), into.to_str().unwrap().to_owned());
            let place_options = ["--from", from.to_str().unwrap(), "--into", &into_text, "--table", "Cars"];
            run_restore(&arguments(&[&place_options[..], &choice, &options].concat())).unwrap();
            let copied = &place.state_of(&into).tables[0];
            assert_eq!((copied.1.len(), copied.0.settings.retention.is_none()), (count, count == 4), "{log}");
        }
    }
}

fn arguments(options: &[&str]) -> RestoreArgs {
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: RestoreArgs,
    }
    <Command as clap::Parser>::try_parse_from(["restore"].iter().chain(options)).unwrap().args
}

/// Runs a follower on a thread until it ends by itself or `stop` is set. Its steps are received.
fn run_follower(place: &Place, stop: &Arc<AtomicBool>) -> (Receiver<FollowStep>, Receiver<anyhow::Result<()>>) {
    let ((sender, steps), (ended, end), stop) = (channel(), channel(), Arc::clone(stop));
    let report = move |step| {
        let _ = sender.send(step);
        Ok(())
    };
    let every = Duration::from_millis(20);
    let follower = Follower { data: place.data(), to: place.address(), every, keep: None, report };
    std::thread::spawn(move || ended.send(follower.run(&Progress::new("following", 0), &stop)));
    (steps, end)
}

#[test]
fn a_running_follower_waits_for_its_server_and_ends_when_an_old_copy_is_put_back() {
    let mut place = Place::new();
    place.apply(&Operation::CreateTable(0));
    place.stop();
    let copy = place.folder.path().join("copy");
    copy_folder(&place.data(), &copy);
    let stop = Arc::new(AtomicBool::new(false));
    assert!(place.follow().unwrap_err().is::<NoServer>());
    let (steps, end) = run_follower(&place, &stop);
    place.start();
    let timeout = Duration::from_mins(1);
    let step = steps.recv_timeout(timeout).map_err(|_| end.recv());
    assert!(matches!(step, Ok(FollowStep::BackedUp(..))), "{step:?}");
    let (_, next, _) = put(&place, 1);
    while !matches!(steps.recv_timeout(timeout).unwrap(), FollowStep::Added { part, .. } if part.range.next == next) {}
    place.stop();
    std::fs::remove_dir_all(place.data()).unwrap();
    copy_folder(&copy, &place.data());
    place.start();
    put(&place, 2);
    let ended = end.recv_timeout(timeout);
    stop.store(true, Ordering::Relaxed);
    let error = ended.expect("the follower does not end").unwrap_err().to_string();
    assert!(error.contains("does not continue") && error.contains("rowhouse.log-id"), "{error}");
}

#[test]
fn a_repository_whose_only_manifest_is_gone_is_not_intact() {
    let mut place = Place::new();
    place.apply(&Operation::CreateTable(0));
    put(&place, 1);
    place.follow().unwrap();
    assert!(verify(&place.address(), true, false).unwrap());
    std::fs::remove_dir_all(place.repository_path().join("backups")).unwrap();
    std::fs::create_dir(place.repository_path().join("backups")).unwrap();
    assert!(!verify(&place.address(), true, false).unwrap());
    assert!(place.restore_latest("none").unwrap_err().to_string().contains("no backup"));
    place.followed = None;
    assert_eq!(place.follow().unwrap().len(), 2, "a backup and a part");
    assert!(verify(&place.address(), true, false).unwrap());
}

#[test]
fn a_part_contains_what_was_acknowledged_until_its_end_but_was_not_synced() {
    let mut place = Place::with(Durability::Interval(Duration::from_millis(300)));
    place.apply(&Operation::CreateTable(0));
    place.follow().unwrap();
    for value in 0..3 {
        let (expected, _, time) = put(&place, value);
        place.follow().unwrap();
        assert_eq!(place.restore(&format!("{value}"), Target::Time(time)).unwrap().0, expected);
        // Later transactions are not later additions to the same time.
        let (_, parts) = place.repository().parts().unwrap().pop_first().unwrap();
        let until = parts.last().unwrap().range.until;
        let (_, _, later) = put(&place, 100 + value);
        place.follow().unwrap();
        assert!(until < later);
        assert_eq!(place.restore(&format!("{value}-until"), Target::Time(until)).unwrap().0, expected);
    }
}

#[test]
fn missing_and_damaged_parts_are_found_and_not_left_out_of_a_later_state() {
    let mut place = Place::new();
    place.apply(&Operation::CreateTable(0));
    place.follow().unwrap();
    let mut states = Vec::new();
    for value in 0..4 {
        states.push(put(&place, value));
        place.follow().unwrap();
    }
    assert!(verify(&place.address(), true, false).unwrap());
    let (log, parts) = place.repository().parts().unwrap().pop_first().unwrap();
    let second = parts.iter().filter(|part| !part.is_empty()).nth(1).unwrap().to_string();
    let second = place.repository_path().join("log").join(&log).join(second);
    let intact = std::fs::read(&second).unwrap();
    let (before, last) = (states[0].1 - 1, states[3].1 - 1);
    for (name, content, expected) in
        [("damaged", Some(&intact[..intact.len() - 1]), "is damaged"), ("missing", None, "it covers")]
    {
        match content {
            Some(content) => std::fs::write(&second, content).unwrap(),
            None => std::fs::remove_file(&second).unwrap(),
        }
        assert!(!verify(&place.address(), true, false).unwrap());
        let error = format!("{:#}", place.restore(&format!("{name}-last"), Target::Position(last)).unwrap_err());
        assert!(error.contains(expected), "{error}");
        let error = format!("{:#}", place.restore_latest(&format!("{name}-latest")).unwrap_err());
        assert!(error.contains(name) && error.contains(&format!("pass --to {before} ")), "{error}");
        assert_eq!(place.restore(name, Target::Position(before)).unwrap().0, states[0].0);
    }
    std::fs::write(&second, intact).unwrap();
    assert_eq!(place.restore("last", Target::Position(last)).unwrap().0, states[3].0);
}

#[test]
fn the_latest_state_is_the_newest_backup_with_all_of_its_log() {
    let mut place = Place::new();
    place.apply(&Operation::CreateTable(0));
    let (followed, ..) = put(&place, 1);
    place.back_up(None);
    assert_eq!(place.restore_latest("alone").unwrap(), followed, "nothing continues the backup");
    place.follow().unwrap();
    let (expected, ..) = put(&place, 2);
    place.follow().unwrap();
    let (second, ..) = put(&place, 3);
    assert_eq!(place.restore_latest("first").unwrap(), expected);
    place.back_up(None);
    assert_eq!(place.restore_latest("second").unwrap(), second, "the log ends before the newest backup");
    let (third, ..) = put(&place, 4);
    place.follow().unwrap();
    assert_eq!(place.restore_latest("third").unwrap(), third);
    // The log of the first backup leads to the second one.
    let repository = place.repository();
    let [_, newest] = &repository.backups().unwrap()[..] else { panic!() };
    let manifest = place.repository_path().join("backups").join(format!("{newest}.json"));
    std::fs::write(&manifest, "damaged").unwrap();
    assert_eq!(place.restore_latest("without").unwrap(), third);
    std::fs::remove_dir_all(place.repository_path().join("log")).unwrap();
    let error = format!("{:#}", place.restore_latest("none").unwrap_err());
    assert!(error.contains("is damaged") && error.contains("pass --backup "), "{error}");
    let backup = BackupChoice::Latest.find(&repository);
    assert!(backup.is_err(), "{backup:?}");
}

#[test]
fn the_log_of_a_replaced_folder_does_not_continue_a_backup_of_the_old_copy() {
    let mut place = Place::new();
    place.apply(&Operation::CreateTable(0));
    put(&place, 0);
    place.stop();
    let copy = place.folder.path().join("copy");
    copy_folder(&place.data(), &copy);
    place.start();
    place.follow().unwrap();
    (1..9).for_each(|value| drop(put(&place, value)));
    place.follow().unwrap();
    place.stop();
    std::fs::remove_dir_all(place.data()).unwrap();
    copy_folder(&copy, &place.data());
    place.start();
    let (expected, next, _) = put(&place, 100);
    assert_eq!(place.back_up(None), next);
    assert_eq!(place.restore_latest("latest").unwrap(), expected);
    assert_eq!(place.restore("position", Target::Position(next - 1)).unwrap().0, expected);
}

#[test]
fn parts_continue_a_backup_without_gaps_and_may_overlap() {
    let place = tempfile::tempdir().unwrap();
    let repository = Repository::create_or_open(&RepositoryAddress::Folder(place.path().to_owned())).unwrap();
    let id = "0a".repeat(16);
    let time = |ticks: u64| DateTime::from_ticks(i64::try_from(ticks).unwrap()).unwrap();
    let add = |first: u64, next: u64| {
        let mut part = PartContent::new(first);
        part.push(next, &[]).unwrap();
        repository.add_part(&id, part, Some(time(10 * next))).unwrap()
    };
    let parts: Vec<PartName> =
        [(2, 5), (5, 9), (7, 12), (12, 12), (14, 20)].map(|(first, next)| add(first, next)).into();
    let reach = |position| {
        let found = Continuation::new(LogPosition { id: id.clone(), position }, DateTime::MIN, &parts);
        (found.next, found.until.map(DateTime::ticks), found.parts.len())
    };
    assert_eq!(reach(1), (1, None, 0));
    assert_eq!(reach(2), (12, Some(120), 4));
    assert_eq!(reach(11), (12, Some(120), 2));
    assert_eq!(reach(12), (12, Some(120), 1));
    assert_eq!(reach(13), (13, None, 0));
    assert_eq!(reach(15), (20, Some(200), 1));
}
