//! The backup that a new backup builds on: a chunk that has changed since is stored as changes of its files.
//!
//! Nothing is assumed about how the data came to differ from that backup: a changed chunk is compared with the former
//! entities of its range. Clocks, and data folders that were replaced or restored, therefore do not matter.

use super::repository::{ChunkContent, ChunkEntry, ChunkFile, LayeredChunk, Repository, StoredChunk, TableContent};
use std::collections::HashMap;

/// A chunk is not compared with much more than its own size, for example if most entities of a table were deleted. A
/// former chunk can contain a few megabytes and many new ones.
const COMPARED_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The newest backup that can be read, or nothing.
#[derive(Debug, Default)]
pub(super) struct BaseBackup {
    tables: HashMap<String, BaseTable>,
    /// The number of layers that only one in twenty chunks exceeds.
    pub(super) many_layers: usize,
    pub(super) entities: u64,
}

#[derive(Debug, Default)]
pub(super) struct BaseTable {
    /// All files of the table, the oldest first.
    pub(super) files: Vec<ChunkFile>,
    /// In key order.
    chunks: Vec<BaseChunk>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct BaseChunk {
    entry: ChunkEntry,
    first: Vec<u8>,
    /// The files that contain it.
    files: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct PlacedChunk {
    pub(super) name: String,
    pub(super) content: ChunkContent,
    pub(super) placement: Placement,
}

/// How a chunk is or can be stored.
#[derive(Debug)]
pub(super) enum Placement {
    Whole(StoredChunk),
    /// In files of the base.
    Unchanged(Vec<usize>),
    /// As changes of files of the base.
    Changed(LayeredChunk, Vec<usize>),
}

impl BaseBackup {
    pub(super) fn find(repository: &Repository) -> anyhow::Result<Self> {
        for id in repository.backups()?.iter().rev() {
            match repository.manifest(id) {
                Ok(manifest) => {
                    let chunks = manifest.tables.iter().flat_map(|table| &table.chunks);
                    let mut counts: Vec<_> = chunks.map(|chunk| chunk.from.len()).collect();
                    counts.sort_unstable();
                    let many_layers = counts.get(counts.len() * 19 / 20).copied().unwrap_or_default();
                    let entities = manifest.entities();
                    let table = |table| (name(&table), BaseTable::new(table, repository));
                    return Ok(Self {
                        tables: manifest.tables.into_iter().map(table).collect(),
                        many_layers,
                        entities,
                    });
                }
                Err(error) => tracing::warn!("an earlier backup is the base of the new one: {error:#}"),
            }
        }
        Ok(Self::default())
    }

    pub(super) fn table(&self, table: &TableContent) -> Option<&BaseTable> {
        self.tables.get(&name(table))
    }
}

fn name(table: &TableContent) -> String {
    table.table.to_string().to_ascii_lowercase()
}

impl BaseTable {
    /// Omits chunks of which a layer is missing.
    fn new(table: TableContent, repository: &Repository) -> Self {
        let exist: Vec<_> =
            table.layers.iter().map(|layer| repository.stored(&layer.sha256, layer.bytes).is_some()).collect();
        let mut base = Self { files: table.layers, ..Self::default() };
        for entry in table.chunks {
            let mut files = entry.from.clone();
            if files.is_empty() {
                files.push(base.files.len());
                base.files.push(entry.file.clone());
            } else if files.iter().any(|file| exist.get(*file) != Some(&true)) {
                continue;
            }
            base.by_name.insert(entry.file.sha256.clone(), base.chunks.len());
            base.chunks.push(BaseChunk { first: entry.first(), entry, files });
        }
        base
    }

    fn known(&self, name: &str) -> Option<&BaseChunk> {
        self.by_name.get(name).and_then(|index| self.chunks.get(*index))
    }

    /// Returns `None` if storing the changes would save little.
    fn compare(
        &self,
        content: &ChunkContent,
        repository: &Repository,
    ) -> anyhow::Result<Option<(LayeredChunk, Vec<usize>)>> {
        let (first, last) = content.first_and_last()?;
        let from = self.chunks.partition_point(|chunk| chunk.first.as_slice() <= first).saturating_sub(1);
        let to = self.chunks.partition_point(|chunk| chunk.first.as_slice() <= last);
        let former = self.chunks.get(from..to).unwrap_or_default();
        let bytes = content.bytes.len() as u64;
        if former.iter().map(|chunk| chunk.entry.file.bytes).sum::<u64>() > COMPARED_BYTES_MAX {
            return Ok(None);
        }
        let mut files: Vec<_> = former.iter().flat_map(|chunk| &chunk.files).copied().collect();
        files.sort_unstable();
        files.dedup();
        let layered = repository.layered(content, files.iter().filter_map(|file| self.files.get(*file)))?;
        Ok((2 * layered.changes.bytes.len() as u64 <= bytes).then_some((layered, files)))
    }
}

/// Finds the files that contain a chunk, or its former entities. Otherwise, stores it.
pub(super) fn place(
    base: Option<&BaseTable>,
    content: ChunkContent,
    repository: &Repository,
) -> anyhow::Result<PlacedChunk> {
    let name = content.name();
    let known = base.and_then(|base| base.known(&name)).filter(|known| !known.entry.from.is_empty());
    let mut placement = known.map(|known| Placement::Unchanged(known.files.clone()));
    if placement.is_none()
        && let Some(base) = base
        && repository.stored(&name, content.bytes.len() as u64).is_none()
    {
        placement = match base.compare(&content, repository) {
            Ok(compared) => compared.map(|(layered, files)| Placement::Changed(layered, files)),
            Err(error) => {
                tracing::warn!("a chunk is stored whole, because its former content cannot be read: {error:#}");
                None
            }
        };
    }
    let placement = match placement {
        Some(placement) => placement,
        None => Placement::Whole(repository.store(name.clone(), &content)?),
    };
    Ok(PlacedChunk { name, content, placement })
}
