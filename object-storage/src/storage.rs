use crate::address::StorageAddress;
use crate::error::{StorageError, explain, is_empty, is_missing};
use crate::settings::{self, Settings};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    BackoffConfig, GetOptions, GetRange, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, RetryConfig,
};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::runtime::{Builder, Runtime};

/// The number of bytes in a request or response. Larger objects are transferred in several. S3 allows no smaller
/// pieces.
const PIECE_BYTES: usize = 5 * 1024 * 1024;
/// The number of pieces of an object that are sent at the same time.
const CONCURRENT_PIECES_MAX: usize = 4;
/// The threads wait for the network. Requests are signed by the threads of the callers.
const THREADS: usize = 2;

const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(10);
/// No attempt is made after this time.
const RETRY_TIME_MAX: Duration = Duration::from_mins(3);
const RETRIES_MAX: usize = 100;
const IMPATIENT_RETRY_TIME_MAX: Duration = Duration::from_secs(10);
const IMPATIENT_RETRIES_MAX: usize = 2;

/// Objects with a common beginning of their names. Clones share their connections.
///
/// All functions block, so they must not be called by a task of an asynchronous runtime.
#[derive(Clone)]
pub struct ObjectStorage {
    address: StorageAddress,
    is_patient: bool,
    connection: Arc<OnceLock<Connection>>,
}

/// An object in a listing.
#[derive(Debug, Clone)]
pub struct ListedObject {
    /// The name without the folder that was listed.
    pub name: String,
    /// The size.
    pub bytes: u64,
    /// The time of the last write, according to the storage.
    pub written: SystemTime,
}

struct Connection {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    patient: Arc<dyn ObjectStore>,
    impatient: Arc<dyn ObjectStore>,
    /// The environment contains no credentials, so that the machine is asked for them.
    asks_machine: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for ObjectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectStorage").field(&self.address).finish_non_exhaustive()
    }
}

impl fmt::Display for ObjectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl ObjectStorage {
    /// Sends no request yet. Failed requests are repeated for three minutes.
    pub fn new(address: StorageAddress) -> Self {
        Self { address, is_patient: true, connection: Arc::default() }
    }

    /// Returns the same storage, for requests that are repeated only twice.
    pub fn impatient(&self) -> Self {
        Self { is_patient: false, ..self.clone() }
    }

    /// Returns the address of an object, for messages.
    pub fn address_of(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Returns `None` if the object does not exist.
    pub fn get(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, StorageError> {
        let path = self.path(name);
        self.run(async |store| {
            let mut content = Vec::new();
            loop {
                let start = content.len() as u64;
                let range = Some(GetRange::Bounded(start..start + PIECE_BYTES as u64));
                let result = match store.get_opts(&path, GetOptions { range, ..GetOptions::default() }).await {
                    Err(error) if is_missing(&error) => return Ok(None),
                    Err(error) if is_empty(&error) => return Ok(Some(content)),
                    result => result.map_err(Failure::Library)?,
                };
                let size = result.meta.size;
                if size > bytes_max {
                    return Err(Failure::Ours(StorageError::TooLarge(bytes_max)));
                }
                let piece = result.bytes().await.map_err(Failure::Library)?;
                content.extend_from_slice(&piece);
                if content.len() as u64 >= size || piece.is_empty() {
                    return Ok(Some(content));
                }
            }
        })
    }

    /// Replaces the object if it exists.
    pub fn put(&self, name: &str, content: Vec<u8>) -> Result<(), StorageError> {
        let (path, content) = (self.path(name), Bytes::from(content));
        self.run(async |store| {
            if content.len() <= PIECE_BYTES {
                store.put(&path, content.into()).await.map_err(Failure::Library)?;
                return Ok(());
            }
            let mut upload = store.put_multipart(&path).await.map_err(Failure::Library)?;
            let sent = send_pieces(upload.as_mut(), &content).await;
            if sent.is_err() {
                // The pieces are invisible, but cost money. The storage's own rules may remove them later.
                drop(upload.abort().await);
            }
            sent.map_err(Failure::Library)
        })
    }

    /// Passes all objects in a folder and its subfolders to the sink, in any order.
    pub fn list(&self, folder: &str, mut sink: impl FnMut(ListedObject)) -> Result<(), StorageError> {
        let path = self.path(folder);
        self.run(async |store| {
            let mut objects = store.list(Some(&path));
            while let Some(ObjectMeta { location, size, last_modified, .. }) =
                objects.try_next().await.map_err(Failure::Library)?
            {
                let name = location.as_ref().strip_prefix(path.as_ref()).unwrap_or_default().trim_start_matches('/');
                sink(ListedObject { name: name.to_owned(), bytes: size, written: last_modified.into() });
            }
            Ok(())
        })
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> Result<bool, StorageError> {
        let prefix = self.address.prefix.clone();
        self.run(async |store| {
            let first = store.list(Some(&prefix)).try_next().await.map_err(Failure::Library)?;
            Ok(first.is_none())
        })
    }

    /// Objects that do not exist count as deleted.
    pub fn delete(&self, names: &[impl AsRef<str>]) -> Result<(), StorageError> {
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name.as_ref()))).collect();
        self.run(async |store| {
            let mut deleted = store.delete_stream(stream::iter(paths).boxed());
            while let Some(result) = deleted.next().await {
                match result {
                    Err(error) if !is_missing(&error) => return Err(Failure::Library(error)),
                    _ => {}
                }
            }
            Ok(())
        })
    }

    fn path(&self, name: &str) -> Path {
        let mut path = self.address.prefix.clone();
        path.extend(name.split('/').filter(|part| !part.is_empty()));
        path
    }

    fn run<T>(&self, work: impl AsyncFnOnce(&dyn ObjectStore) -> Result<T, Failure>) -> Result<T, StorageError> {
        let connection = if let Some(connection) = self.connection.get() {
            connection
        } else {
            let connection = Connection::open(&self.address)?;
            self.connection.get_or_init(|| connection)
        };
        let store = if self.is_patient { &connection.patient } else { &connection.impatient };
        let runtime = connection.runtime.as_ref().expect("the runtime is removed only when the connection is dropped");
        runtime.block_on(work(store.as_ref())).map_err(|failure| match failure {
            Failure::Ours(error) => error,
            Failure::Library(error) => match explain(&self.address, &error) {
                error if connection.asks_machine => {
                    error.explained("the environment has no credentials, so the machine was asked for them")
                }
                error => error,
            },
        })
    }
}

enum Failure {
    Ours(StorageError),
    Library(object_store::Error),
}

async fn send_pieces(upload: &mut dyn MultipartUpload, content: &Bytes) -> object_store::Result<()> {
    let starts = (0..content.len()).step_by(PIECE_BYTES);
    let pieces: Vec<_> = starts
        .map(|start| upload.put_part(content.slice(start..content.len().min(start + PIECE_BYTES)).into()))
        .collect();
    stream::iter(pieces).buffer_unordered(CONCURRENT_PIECES_MAX).try_collect::<()>().await?;
    upload.complete().await.map(drop)
}

impl Connection {
    fn open(address: &StorageAddress) -> Result<Self, StorageError> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(|error| StorageError::Settings(format!("starting threads: {error}")))?;
        let backoff =
            BackoffConfig { init_backoff: RETRY_DELAY_MIN, max_backoff: RETRY_DELAY_MAX, ..BackoffConfig::default() };
        let patient = RetryConfig { backoff: backoff.clone(), max_retries: RETRIES_MAX, retry_timeout: RETRY_TIME_MAX };
        let impatient =
            RetryConfig { backoff, max_retries: IMPATIENT_RETRIES_MAX, retry_timeout: IMPATIENT_RETRY_TIME_MAX };
        let Settings { asks_machine, build } = settings::read(address)?;
        Ok(Self { runtime: Some(runtime), patient: build(patient)?, impatient: build(impatient)?, asks_machine })
    }
}
