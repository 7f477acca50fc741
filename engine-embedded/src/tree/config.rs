//! How the library is configured.
//!
//! The library stores none of the settings except the number of levels, so new files of old folders get them too.

use super::error::TreeError;
use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, HashRatioPolicy,
    PartitioningPolicy, PinningPolicy, RestartIntervalPolicy,
};
use lsm_tree::{Cache, CompressionType, Config, DescriptorTable, SequenceNumberCounter};
use platform::process::CACHED_FILES_MAX;
use std::path::Path;
use std::sync::Arc;

/// The size of a block of entities on disk and in the cache, in bytes. A block ends with the entity that reaches this
/// size. The allocator rounds up to the next of 28, 32 and 40 KiB.
const BLOCK_BYTES: u32 = 30 * 1024;

/// The file that names the current list of files.
const CURRENT: &str = "current";

#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeSettings {
    pub(crate) cache_bytes: u64,
}

pub(super) fn exists(path: &Path) -> Result<bool, TreeError> {
    path.join(CURRENT).try_exists().map_err(|error| TreeError::Library(error.into()))
}

pub(super) fn config(path: &Path, settings: TreeSettings) -> Config {
    // The library numbers its lists with the first counter. Only its own reads would depend on the numbers.
    Config::new(path, SequenceNumberCounter::default(), SequenceNumberCounter::default())
        .use_cache(Arc::new(Cache::with_capacity_bytes(settings.cache_bytes)))
        .use_descriptor_table(Some(Arc::new(DescriptorTable::new(CACHED_FILES_MAX))))
        .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
        .data_block_compression_policy(CompressionPolicy::new([
            CompressionType::None,
            CompressionType::None,
            CompressionType::Lz4,
        ]))
        .index_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        .data_block_restart_interval_policy(RestartIntervalPolicy::new([10, 16]))
        .data_block_hash_ratio_policy(HashRatioPolicy::all(0.0))
        .index_block_pinning_policy(PinningPolicy::new([true, true, false]))
        .filter_block_pinning_policy(PinningPolicy::new([true, false]))
        .index_block_partitioning_policy(PartitioningPolicy::new([false, false, false, true]))
        // An undivided filter of a file of 64 MiB can have more than a megabyte. To read it from the file counts as
        // slow, and gets would then be passed to other threads.
        .filter_block_partitioning_policy(PartitioningPolicy::new([false, true]))
        // The lowest level has filters too, because an insert looks up a missing key.
        .expect_point_read_hits(false)
        .filter_policy(FilterPolicy::new([
            FilterPolicyEntry::Bloom(BloomConstructionPolicy::FalsePositiveRate(0.0001)),
            FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0)),
        ]))
        .with_kv_separation(None)
}
