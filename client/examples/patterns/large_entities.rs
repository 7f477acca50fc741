//! Large entities: a value of more than 64 KiB, stored in several entities. In the cloud, use a blob instead.
//!
//! The value is split into chunks. Another entity, the manifest, has a known key and contains the version number of the
//! current chunks. A new version is written next to the old one, and then a single request updates the manifest. A
//! reader sees either the old or the new value, never a mixture. Chunks of old versions are deleted afterwards.
//!
//! Use this for values of a few MiB. Put larger values, and values served to browsers, into files or an object store,
//! and store their URL in the entity.

use crate::support::{Pattern, Result, refused, requests};
use rowhouse_client::{Entity, ErrorKind, IfMatch, PropertyBag, Table};
use std::time::{SystemTime, UNIX_EPOCH};

/// The size of a property, in bytes. The service accepts up to 64 KiB.
const PROPERTY_BYTES: usize = 64 * 1024;
/// The number of properties in a chunk. It keeps the chunk below the 1 MiB limit of an entity.
const CHUNK_PROPERTIES: usize = 15;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "manifest")]
struct Manifest {
    #[entity(partition_key)]
    photo: String,
    version: i64,
    bytes: i64,
}

/// Returns a number for a new version, based on the current time in microseconds. Later writers get greater numbers.
fn new_version() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?)
}

fn chunk_prefix(version: i64) -> String {
    format!("chunk_{version:020}_")
}

async fn write_chunks(photos: &Table, photo: &str, version: i64, content: &[u8]) -> Result {
    for (chunk, number) in content.chunks(PROPERTY_BYTES * CHUNK_PROPERTIES).zip(0..) {
        let mut bag = PropertyBag::new(photo, &format!("{}{number:06}", chunk_prefix(version)))?;
        for (bytes, number) in chunk.chunks(PROPERTY_BYTES).zip(0..) {
            bag.set(&format!("p{number:02}"), bytes.to_vec())?;
        }
        photos.insert(&bag).await?;
    }
    Ok(())
}

async fn delete_chunks_before(photos: &Table, photo: &str, version: i64) -> Result {
    let current = chunk_prefix(version);
    let chunks = photos.query::<PropertyBag>().partition(photo).rows("chunk_"..current.as_str());
    for row in chunks.select(|p| p.row_key).collect().await? {
        photos.delete(photo, &row, IfMatch::Any).await?;
    }
    Ok(())
}

async fn write(photos: &Table, photo: &str, content: &[u8]) -> Result {
    let current = photos.find::<Manifest>(photo, "manifest").await?;
    let (version, bytes) = (new_version()?, i64::try_from(content.len())?);
    write_chunks(photos, photo, version, content).await?;
    // The manifest makes the new version current, unless another program has written the photo in the meantime.
    let manifest = Manifest { photo: photo.to_owned(), version, bytes };
    match current {
        None => drop(photos.insert(&manifest).await?),
        Some(current) => {
            photos.replace(&manifest, &current).await?;
            delete_chunks_before(photos, photo, version).await?;
        }
    }
    Ok(())
}

async fn read(photos: &Table, photo: &str) -> Result<Vec<u8>> {
    loop {
        let manifest = photos.get::<Manifest>(photo, "manifest").await?;
        let chunks = photos.query::<PropertyBag>().partition(photo).row_prefix(&chunk_prefix(manifest.version));
        let mut content = Vec::new();
        for chunk in chunks.collect().await? {
            for number in 0..CHUNK_PROPERTIES {
                content.extend(chunk.get::<Option<Vec<u8>>>(&format!("p{number:02}"))?.unwrap_or_default());
            }
        }
        // If chunks are missing, the version was replaced while it was being read.
        if content.len() == usize::try_from(manifest.bytes)? {
            return Ok(content);
        }
    }
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("large_entities").await?;
    let photos = pattern.table("photos").await?;
    let photo: Vec<u8> = (0..2_500_000_u32).map(|number| (number % 251) as u8).collect();

    let chunk = PropertyBag::new("cat", "all")?.with("Photo", photo.clone());
    assert!(chunk.is_err(), "a property can have at most 64 KiB");

    let written = write(&photos, "cat", &photo);
    pattern.step("write 2.5 MB", requests(5).written(4), written).await?;

    let cost = requests(2).examined(4).returned(4);
    let found = pattern.step("read it", cost, read(&photos, "cat")).await?;
    assert_eq!(found, photo);

    let smaller = photo.get(..1_000_000).unwrap_or_default();
    let cost = requests(8).examined(4).returned(4).written(6);
    pattern.step("replace it with 1 MB", cost, write(&photos, "cat", smaller)).await?;
    assert_eq!(read(&photos, "cat").await?, smaller);

    // A writer that loses the race affects no reader.
    let outdated = photos.get::<Manifest>("cat", "manifest").await?;
    write(&photos, "cat", &photo).await?;
    let error = refused(photos.replace(&outdated, &outdated)).await?;
    assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
    assert_eq!(read(&photos, "cat").await?, photo);

    pattern.finish().await
}
