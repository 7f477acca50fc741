//! The initial tables of a server (`rowhouse serve --seed`): reads files like an import, and writes them into an
//! engine before it is served.
//!
//! Invariants:
//!
//! 1. Nothing is written to an account that has a table, so starting the server a second time changes nothing.
//! 2. Nothing is written to a persistent engine unless the files can be loaded completely.

use super::args::ImportMode;
use super::bad_lines::BadLines;
use super::files::ImportFiles;
use super::state::{ImportOptions, ImportState};
use super::write::FileImport;
use crate::endpoints::EngineEndpoint;
use crate::terminal::Progress;
use anyhow::{Context, ensure};
use engine::{BoxFuture, Engine, Memory};
use model::AccountName;
use model::clock::SystemClock;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Semaphore;

const TRANSACTIONS_MAX: usize = 16;

/// The result of loading a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeedSummary {
    /// The number of tables.
    pub tables: u64,
    /// The number of entities.
    pub entities: u64,
    /// How many of the entities no client sees, because they had expired by the retention of their tables.
    pub expired: u64,
}

/// Loads the files in a folder into an account that has no table. If the account has a table, loads nothing and returns
/// `None`. Nothing else may use the engine while the files are loaded. For a persistent engine, the files are first
/// loaded into memory as a trial.
///
/// Must be called on a multithreaded runtime.
pub fn seed<'a>(
    engine: &'a Arc<dyn Engine>,
    folder: &'a Path,
    account: &'a AccountName,
    is_kept: bool,
) -> BoxFuture<'a, anyhow::Result<Option<SeedSummary>>> {
    Box::pin(async move {
        if !engine.list_tables(account, "", 1).await?.is_empty() {
            return Ok(None);
        }
        let what = || format!("loading the initial tables from {}", folder.display());
        ensure!(
            folder.is_dir(),
            "--seed {} is not a folder: pass a folder with a file NAME.jsonl for each table",
            folder.display()
        );
        if is_kept {
            load(Arc::new(Memory::new(SystemClock)), folder, account).await.with_context(what)?;
        }
        load(Arc::clone(engine), folder, account).await.map(Some).with_context(what)
    })
}

async fn load(engine: Arc<dyn Engine>, folder: &Path, account: &AccountName) -> anyhow::Result<SeedSummary> {
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
    let progress = Arc::new(Progress::new("loading", files.tables.len()));
    let import = FileImport {
        endpoint: Arc::new(EngineEndpoint(engine)),
        account: account.clone(),
        mode: mode.into(),
        types: Arc::default(),
        guesses_types: false,
        is_only_table: false,
        with_policies: true,
        bad_lines: BadLines::without_bad_lines(),
        // There is no state file, because a server does not continue the work of an earlier server.
        state: ImportState::open(None, options)?,
        progress: Arc::clone(&progress),
        transactions: Arc::new(Semaphore::new(TRANSACTIONS_MAX)),
        expired: AtomicU64::new(0),
    };
    let import = Arc::new(import);
    Arc::clone(&import).run(&files.tables).await?;
    let (tables, entities) = progress.done();
    Ok(SeedSummary { tables, entities, expired: import.expired.load(Ordering::Relaxed) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_embedded::{Embedded, EmbeddedOptions};
    use std::fs;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_engine_that_keeps_its_data_gets_all_or_nothing_and_only_once() {
        let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let account = AccountName::new("orchard").unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let line = |row: u32| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}\n");
        // With more than one window, the first could be written before the last line is read.
        let lines: String = (0..5000).map(line).collect();
        write("trees.jsonl", &format!("{lines}{{\n"));
        let open = || -> Arc<dyn Engine> {
            Arc::new(Embedded::open(data.path(), &EmbeddedOptions::default(), SystemClock).unwrap())
        };
        let error = seed(&open(), folder.path(), &account, true).await.unwrap_err();
        assert!(format!("{error:#}").contains("trees.jsonl:5001:"), "{error:#}");
        write("trees.jsonl", &lines);
        let engine = open();
        let seeded = seed(&engine, folder.path(), &account, true).await.unwrap();
        assert_eq!(seeded, Some(SeedSummary { tables: 1, entities: 5000, expired: 0 }), "the account was empty");
        write("trees.jsonl", "not read");
        let again = seed(&engine, folder.path(), &account, true).await.unwrap();
        assert_eq!(again, None);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn entities_that_have_expired_already_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let line = |row: u32, year: u32| {
            format!(
                "{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",\"Ends\":\"{year}-01-01T00:00:00Z\",\"Ends@odata.type\":\"Edm.DateTime\"}}\n"
            )
        };
        fs::write(folder.path().join("offers.jsonl"), [line(1, 2001), line(2, 2002), line(3, 9000)].concat()).unwrap();
        fs::write(
            folder.path().join("export.json"),
            "{\"format\":1,\"made_by\":\"\",\"finished\":\"\",\"from\":\"\",\"account\":\"a\",\"file_format\":\"jsonl\",\
             \"with_timestamps\":false,\"tables\":[{\"name\":\"offers\",\"file\":\"offers.jsonl\",\"entities\":3,\"bytes\":0,\
             \"sha256\":\"\",\"retention\":{\"property\":\"Ends\",\"seconds\":0}}]}",
        )
        .unwrap();
        let engine: Arc<dyn Engine> = Arc::new(Memory::new(SystemClock));
        let seeded = seed(&engine, folder.path(), &AccountName::new("orchard").unwrap(), false).await.unwrap();
        assert_eq!(seeded, Some(SeedSummary { tables: 1, entities: 3, expired: 2 }));
    }
}
