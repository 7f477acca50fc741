//! Copies the engine's log and plants mistakes in the copy, each of which a test turns on. The copy differs from the
//! log nowhere else. If a place of the table does not occur exactly once in the log, the build fails: change the table
//! with the log.

#![allow(clippy::panic, reason = "a failure is a failed test")]

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// The name of a mistake, which says what the log does wrong; the durability with which it shows; and its places: the
/// file, what is there, and what replaces it. `PLANTED` is true if the mistake is turned on.
type Mistake = (&'static str, &'static str, &'static [(&'static str, &'static str, &'static str)]);

const MISTAKES: [Mistake; 19] = [
    // Groups claim that no transaction before them was synced.
    (
        "ForgetSyncedThrough",
        "Sync",
        &[(
            "tail.rs",
            "synced_through: tail.synced.last }",
            "synced_through: if PLANTED { Sequence::ZERO } else { tail.synced.last } }",
        )],
    ),
    // Groups claim that all transactions before them were synced.
    (
        "ClaimEverythingSynced",
        "Interval",
        &[("tail.rs", "{ tail.synced.last }", "if PLANTED { tail.appended.last } else { tail.synced.last }")],
    ),
    // A failed sync is only reported, and the next one is trusted.
    (
        "TrustSyncAfterFailure",
        "Sync",
        &[(
            "tail.rs",
            "tail.has_failed = true;\n            return Err(DiskError::new(\"sync\"",
            "tail.has_failed = !PLANTED;\n            return Err(DiskError::new(\"sync\"",
        )],
    ),
    // After the next segment could not be begun, writes to the previous one continue.
    (
        "ContinueAfterFailedRotation",
        "Sync",
        &[(
            "writer.rs",
            "tail.has_failed = true;\n                Err(error.into())",
            "if !PLANTED { tail.has_failed = true; }\n                Err(error.into())",
        )],
    ),
    // The header of the next segment names everything written as the end, although a sync of it failed.
    (
        "NameUnsyncedEnd",
        "Sync",
        &[(
            "writer.rs",
            "(tail.header, tail.synced)",
            "(tail.header, if PLANTED { tail.appended } else { tail.synced })",
        )],
    ),
    // After a failure, acknowledged groups that were not synced are not written again.
    (
        "DropUnsyncedGroups",
        "Interval",
        &[("writer.rs", "self.begin(&mut groups,", "self.begin(if PLANTED { &mut [] } else { &mut groups },")],
    ),
    // The next segment begins although the previous one is not synced.
    (
        "RotateWithoutSync",
        "Interval",
        &[
            ("writer.rs", "self.sync()?;\n        let epoch", "if !PLANTED { self.sync()?; }\n        let epoch"),
            ("writer.rs", "else { tail.synced })", "else if PLANTED { tail.appended } else { tail.synced })"),
        ],
    ),
    // A segment becomes live before its header is synced.
    (
        "RenameBeforeSync",
        "Sync",
        &[
            (
                "segments.rs",
                "        let NextSegment { id,",
                "        if PLANTED {\n            let live = Name::Live(next.id).to_string();\n            \
                 self.disk.rename(name, &live).map_err(|error| DiskError::new(\"rename\", name, error))?;\n        }\n        \
                 let NextSegment { id,",
            ),
            (
                "segments.rs",
                "        self.disk.rename(name, &live_name)",
                "        if !PLANTED { self.disk.rename(name, &live_name) } else { Ok(()) }",
            ),
        ],
    ),
    // Released segments keep their live names until they are reused.
    (
        "ReuseBeforeRename",
        "Sync",
        &[(
            "upkeep.rs",
            "        done(self.shared.segments.disk.rename(&live, &free))",
            "        if PLANTED {\n            return Ok(Some(live));\n        }\n        \
             done(self.shared.segments.disk.rename(&live, &free))",
        )],
    ),
    // Several segments are released before the folder is synced.
    (
        "ReleaseWithoutSync",
        "Sync",
        &[
            ("upkeep.rs", "if files.is_release_unsynced {", "if files.is_release_unsynced && !PLANTED {"),
            (
                "upkeep.rs",
                "        segments.sync_folder(files)\n    }",
                "        if PLANTED { Ok(()) } else { segments.sync_folder(files) }\n    }",
            ),
        ],
    ),
    // A segment is released whose last transaction is not persisted.
    (
        "ReleaseTooMuch",
        "Sync",
        &[
            (
                "upkeep.rs",
                "next.first.previous() <= persisted)",
                "next.first.previous() <= persisted.plus(PLANTED.into()))",
            ),
            (
                "upkeep.rs",
                "next.first.previous() > persisted {",
                "next.first.previous() > persisted.plus(PLANTED.into()) {",
            ),
        ],
    ),
    // Recovery appends where the log ends, and does not begin a segment.
    ("AppendAfterCut", "Sync", &[("recovery.rs", "if recovered.is_clean {", "if recovered.is_clean || PLANTED {")]),
    // Recovery relies on groups that may only be in the page cache.
    (
        "TrustPageCache",
        "Sync",
        &[
            (
                "recovery.rs",
                "let from = judged.certain;",
                "let from = if PLANTED { judged.end } else { judged.certain };",
            ),
            (
                "recovery.rs",
                "groups: &mut judged.uncertain,",
                "groups: if PLANTED { &mut [] } else { &mut judged.uncertain },",
            ),
        ],
    ),
    // Recovery relies on names that may not be on disk.
    (
        "TrustNames",
        "Sync",
        &[("recovery.rs", "    disk.sync_folder()", "    if PLANTED { Ok(()) } else { disk.sync_folder() }")],
    ),
    // Recovery does not compare the hashes of payloads.
    (
        "IgnorePayloads",
        "Sync",
        &[("segment_reader.rs", "let has_payload = format", "let has_payload = PLANTED || format")],
    ),
    // Recovery does not search for later groups.
    (
        "IgnoreEvidence",
        "Sync",
        &[("segment_reader.rs", "header.synced_through >= missing)", "header.synced_through >= missing) && !PLANTED")],
    ),
    // Recovery deletes files before it has read the segments.
    (
        "ChangeBeforeJudging",
        "Sync",
        &[(
            "recovery.rs",
            "    let judged = judge(&disk,",
            "    if PLANTED {\n        spares(&disk, &options)?;\n    }\n    let judged = judge(&disk,",
        )],
    ),
    // A clean shutdown only syncs.
    (
        "CloseWithoutSegment",
        "Sync",
        &[(
            "writer.rs",
            "if !self.shared.tail.state.lock().is_empty() {",
            "if !self.shared.tail.state.lock().is_empty() && !PLANTED {",
        )],
    ),
    // A segment is released before its archived form is synced.
    (
        "ArchiveWithoutSync",
        "Sync",
        &[
            (
                "archive.rs",
                "        self.file.sync_data()",
                "        if PLANTED { Ok(()) } else { self.file.sync_data() }",
            ),
            ("archive.rs", "        file.sync_data()", "        if PLANTED { Ok(()) } else { file.sync_data() }"),
        ],
    ),
];

fn main() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/log");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let mut log = String::new();
    println!("cargo::rerun-if-changed={}", engine.display());
    for entry in fs::read_dir(&engine).expect("the engine has a log") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(module) = name.strip_suffix(".rs").filter(|module| !["mod", "real_disk"].contains(module)) else {
            continue;
        };
        let text = fs::read_to_string(&path).expect("the file can be read");
        fs::write(Path::new(&out).join(&name), planted(&name, text)).expect("the copy can be written");
        let copy = Path::new(&out).join(&name).display().to_string();
        let _ = writeln!(log, "#[path = {copy:?}]\npub(crate) mod {module};");
    }
    let mut names = String::new();
    let mut all = String::new();
    for (mistake, durability, _) in MISTAKES {
        let _ = writeln!(names, "    {mistake},");
        let _ = writeln!(all, "    (Mistake::{mistake}, Durability::{durability}),");
    }
    let _ = writeln!(
        log,
        "#[derive(Debug, Clone, Copy, PartialEq, Eq)]\npub(crate) enum Mistake {{\n{names}}}\n\
         const MISTAKES: [(Mistake, options::Durability); {}] = {{\n    use options::Durability;\n    [\n{all}]\n}};",
        MISTAKES.len()
    );
    fs::write(Path::new(&out).join("log.rs"), log).expect("the list can be written");
}

fn planted(name: &str, mut text: String) -> String {
    for (mistake, _, places) in MISTAKES {
        for (_, from, to) in places.iter().filter(|(file, ..)| *file == name) {
            let count = text.matches(from).count();
            assert!(count == 1, "{mistake}: {name} contains {count} times: {from}");
            text = text.replace(from, &to.replace("PLANTED", &format!("super::planted(super::Mistake::{mistake})")));
        }
    }
    text
}
