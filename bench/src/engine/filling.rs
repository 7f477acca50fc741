//! Fills data folders through the engine, which is faster than doing so through a server.

use crate::dataset::{Dataset, Usage};
use crate::generator::request::DEVELOPMENT_ACCOUNT;
use crate::generator::workload::BATCH_ENTITIES;
use anyhow::{Context, anyhow};
use engine::{Engine, TableKey};
use engine_embedded::{Embedded, EmbeddedOptions};
use model::clock::SystemClock;
use model::{AccountName, Mutation, TableName, Transaction};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const TASKS: u64 = 4;
/// The time without a change of the disk space after which background work is considered finished.
const QUIET_TIME: Duration = Duration::from_secs(3);

pub(crate) struct Filling {
    engine: Arc<Embedded>,
    table: TableKey,
    dataset: Arc<Dataset>,
}

impl Filling {
    pub(crate) async fn open(folder: &Path, dataset: Dataset, usage: Usage) -> anyhow::Result<Self> {
        let engine = Arc::new(Embedded::open(folder, &EmbeddedOptions::default(), SystemClock)?);
        let table = table_key(&dataset, usage)?;
        engine.create_table(&table).await.map_err(|error| anyhow!("creating the table: {error:?}"))?;
        Ok(Self { engine, table, dataset: Arc::new(dataset) })
    }

    pub(crate) async fn write_once(&self, salt: u64) -> anyhow::Result<()> {
        let next = Arc::new(AtomicU64::new(0));
        let mut tasks: JoinSet<anyhow::Result<()>> = JoinSet::new();
        for _ in 0..TASKS {
            let (engine, dataset, table) = (Arc::clone(&self.engine), Arc::clone(&self.dataset), self.table.clone());
            let next = Arc::clone(&next);
            tasks.spawn(async move {
                loop {
                    let first = next.fetch_add(BATCH_ENTITIES, Ordering::Relaxed);
                    if first >= dataset.entities {
                        return Ok(());
                    }
                    let numbers = first..(first + BATCH_ENTITIES).min(dataset.entities);
                    let mutations = numbers.map(|number| Mutation::InsertOrReplace {
                        key: dataset.key(number),
                        properties: dataset.record(number, salt),
                    });
                    let transaction = Transaction::new(mutations.collect()).map_err(|error| anyhow!("{error:?}"))?;
                    engine.commit(&table, transaction).await.map_err(|error| anyhow!("writing: {error:?}"))?;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.engine.close().await.context("closing the data folder")
    }
}

/// Returns the key of a dataset's table in the development account.
pub(crate) fn table_key(dataset: &Dataset, usage: Usage) -> anyhow::Result<TableKey> {
    let name = dataset.table(usage);
    Ok(TableKey {
        account: AccountName::new(DEVELOPMENT_ACCOUNT).context("parsing the account name")?,
        name: TableName::new(&name).map_err(|error| anyhow!("{name}: {error:?}"))?,
    })
}

pub(crate) async fn quiet_disk_space(folder: &Path) -> anyhow::Result<u64> {
    let (mut last, mut since) = (disk_space(folder)?, Instant::now());
    while since.elapsed() < QUIET_TIME {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = disk_space(folder)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

/// Returns the size in bytes, including subfolders. Ignores files that are removed during the traversal.
pub(crate) fn disk_space(folder: &Path) -> anyhow::Result<u64> {
    /// The unit of the block count, which Linux specifies but POSIX does not.
    const BLOCK_BYTES: u64 = 512;
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_space(&entry.path())?,
            Ok(metadata) => metadata.blocks() * BLOCK_BYTES,
            Err(_) => 0,
        };
    }
    Ok(bytes)
}
