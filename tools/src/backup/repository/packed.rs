//! Files with compressed content and a checksum: chunks of entities, and parts of the log.
//! `docs/backup-format.md` describes the format.

use anyhow::{Context, bail, ensure};
use xxhash_rust::xxh3::xxh3_64;

/// The beginning of a file, which names its kind.
pub(super) type Magic = [u8; 8];

const COMPRESSION_NONE: u8 = 0;
const COMPRESSION_LZ4: u8 = 1;
/// Magic (8), compression (1), zeros (3), content length (4), payload length (4), XXH3 of the payload (8).
pub(super) const HEADER_BYTES: usize = 28;

/// Content is stored uncompressed if compression does not make it smaller.
pub(super) const fn file_bytes_max(content_bytes_max: usize) -> u64 {
    (HEADER_BYTES + content_bytes_max) as u64
}

pub(super) fn pack(magic: Magic, content: &[u8]) -> anyhow::Result<Vec<u8>> {
    let compressed = lz4_flex::block::compress(content);
    let (compression, payload) = if compressed.len() < content.len() {
        (COMPRESSION_LZ4, compressed.as_slice())
    } else {
        (COMPRESSION_NONE, content)
    };
    let mut file = Vec::with_capacity(HEADER_BYTES + payload.len());
    file.extend_from_slice(&magic);
    file.extend_from_slice(&[compression, 0, 0, 0]);
    file.extend_from_slice(&u32::try_from(content.len())?.to_be_bytes());
    file.extend_from_slice(&u32::try_from(payload.len())?.to_be_bytes());
    file.extend_from_slice(&xxh3_64(payload).to_be_bytes());
    file.extend_from_slice(payload);
    Ok(file)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackedHeader {
    compression: u8,
    pub(super) content_bytes: u64,
    pub(super) file_bytes: u64,
    checksum: u64,
}

impl PackedHeader {
    /// Returns `None` if the bytes are not the beginning of such a file.
    pub(super) fn decode(magic: Magic, bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&magic)?;
        let ([compression, 0, 0, 0], rest) = rest.split_first_chunk()? else { return None };
        let (content, rest) = rest.split_first_chunk()?;
        let (payload, rest) = rest.split_first_chunk()?;
        let (checksum, _) = rest.split_first_chunk()?;
        Some(Self {
            compression: *compression,
            content_bytes: u64::from(u32::from_be_bytes(*content)),
            file_bytes: HEADER_BYTES as u64 + u64::from(u32::from_be_bytes(*payload)),
            checksum: u64::from_be_bytes(*checksum),
        })
    }
}

/// Verifies everything but the hash of the content.
pub(super) fn unpack(magic: Magic, content_bytes_max: usize, file: &[u8]) -> anyhow::Result<Vec<u8>> {
    let header =
        PackedHeader::decode(magic, file).context("it is not a file that this version of Rowhouse can read")?;
    ensure!(header.file_bytes == file.len() as u64, "it is {} bytes long instead of {}", file.len(), header.file_bytes);
    let payload = file.get(HEADER_BYTES..).unwrap_or_default();
    ensure!(xxh3_64(payload) == header.checksum, "its checksum is wrong");
    let content_bytes = usize::try_from(header.content_bytes)?;
    ensure!(
        content_bytes <= content_bytes_max,
        "its header specifies {content_bytes} bytes, more than such a file can contain"
    );
    let content = match header.compression {
        COMPRESSION_NONE => payload.to_vec(),
        COMPRESSION_LZ4 => lz4_flex::block::decompress(payload, content_bytes).context("it cannot be decompressed")?,
        other => bail!("this version does not support its compression method {other}"),
    };
    ensure!(content.len() == content_bytes, "the length of its content differs from its header");
    Ok(content)
}
