//! The tables that a server begins with (`rowhouse serve --seed`): the files that an import reads, written into an engine
//! before it serves anybody.
//!
//! Invariants:
//!
//! 1. Nothing is written into an account that has a table, so a second start changes nothing.
//! 2. Nothing is written to an engine that keeps its data unless the files can be loaded from the first line to the last.

use super::args::ImportMode;
use super::bad_lines::BadLines;
use super::files::ImportFiles;
use super::state::{ImportOptions, ImportState};
use super::write::FileImport;
use crate::endpoints::EngineEndpoint;
use crate::terminal::Progress;
use anyhow::{Context, ensure};
use model::AccountName;
use model::clock::SystemClock;
use std::path::Path;
use std::sync::Arc;
use store::{Engine, Memory};
use tokio::sync::Semaphore;

/// Most transactions that are written at the same time.
const TRANSACTIONS_MAX: usize = 16;

/// What a seed has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeded {
    /// How many tables there are.
    pub tables: u64,
    /// How many entities they have.
    pub entities: u64,
}

/// Loads the files of a folder into an account that has no table; `None` if it has one, and nothing was done. Returns the
/// engine, which nobody else uses meanwhile. If it keeps its data, the files are tried in memory first.
///
/// Must be called on a runtime of several threads.
pub async fn seed<E: Engine>(
    engine: E,
    folder: &Path,
    account: &AccountName,
    is_kept: bool,
) -> anyhow::Result<(E, Option<Seeded>)> {
    if !engine.list_tables(account, "", 1).await?.is_empty() {
        return Ok((engine, None));
    }
    let what = || format!("loading the tables to begin with from {}", folder.display());
    ensure!(
        folder.is_dir(),
        "--seed {} is not a folder: give one with a file NAME.jsonl for each table",
        folder.display()
    );
    if is_kept {
        load(Memory::new(SystemClock), folder, account).await.with_context(what)?;
    }
    let (engine, seeded) = load(engine, folder, account).await.with_context(what)?;
    Ok((engine, Some(seeded)))
}

async fn load<E: Engine>(engine: E, folder: &Path, account: &AccountName) -> anyhow::Result<(E, Seeded)> {
    let files = ImportFiles::find("--seed", folder, &[], None)?.unchecked();
    let mode = ImportMode::Insert;
    let options = ImportOptions {
        from: files.name.clone(),
        to: String::new(),
        mode,
        account: None,
        file_format: None,
        types: Vec::new(),
        guess_types: false,
    };
    let endpoint = Arc::new(EngineEndpoint(engine));
    let progress = Arc::new(Progress::new("loading", files.tables.len()));
    let import = FileImport {
        endpoint: Arc::clone(&endpoint) as _,
        account: account.clone(),
        mode: mode.into(),
        types: Arc::default(),
        guesses_types: false,
        is_only_table: false,
        with_policies: true,
        bad_lines: BadLines::none(Arc::clone(&progress)),
        // Without a file: a server does not continue where another one stopped.
        state: ImportState::open(None, options)?,
        progress: Arc::clone(&progress),
        transactions: Arc::new(Semaphore::new(TRANSACTIONS_MAX)),
    };
    Arc::new(import).run(&files.tables).await?;
    let EngineEndpoint(engine) = Arc::into_inner(endpoint).context("the import has not ended")?;
    let (tables, entities) = progress.done();
    Ok((engine, Seeded { tables, entities }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use store::{Embedded, EmbeddedOptions};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_engine_that_keeps_its_data_gets_all_or_nothing_and_only_once() {
        let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let account = AccountName::new("orchard").unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let line = |row: u32| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}\n");
        // More than one window, so that the first would be written before the last line is read.
        let lines: String = (0..5000).map(line).collect();
        write("trees.jsonl", &format!("{lines}{{\n"));
        let engine = || Embedded::open(data.path(), &EmbeddedOptions::default(), SystemClock).unwrap();
        let error = seed(engine(), folder.path(), &account, true).await.map(drop).unwrap_err();
        assert!(format!("{error:#}").contains("trees.jsonl:5001:"), "{error:#}");
        write("trees.jsonl", &lines);
        let (engine, seeded) = seed(engine(), folder.path(), &account, true).await.unwrap();
        assert_eq!(seeded, Some(Seeded { tables: 1, entities: 5000 }), "nothing was there");
        write("trees.jsonl", "not read");
        let (_, again) = seed(engine, folder.path(), &account, true).await.unwrap();
        assert_eq!(again, None);
    }
}
