//! The current keys of an issuer, and their refresh.
//!
//! Invariants:
//!
//! 1. At most one fetch runs at a time, however many requests wait for it.
//! 2. Requests cause at most one fetch per minute, whatever keys their tokens name.
//! 3. Keys that could not be refreshed for a day are not used. While there are no usable keys, tokens are rejected.

use super::algorithm::Algorithm;
use super::fetch::{FetchError, IssuerClient};
use super::key_set::{Key, KeySet};
use super::settings::KeyLocation;
use super::token_error::TokenError;
use crate::clock;
use bytes::Bytes;
use http::Uri;
use parking_lot::RwLock;
use serde::Deserialize;
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tracing::{info, warn};

/// The minimum interval between fetches caused by requests with an unknown key (09 §6).
const DEMAND_INTERVAL_MIN: Duration = Duration::from_mins(1);
/// The maximum age of keys that cannot be refreshed (09 §6).
const STALE_TIME_MAX: Duration = Duration::from_hours(24);
/// The interval between refreshes if the issuer specifies none, and the bounds of an interval that it specifies (09
/// §6).
const REFRESH_TIME_DEFAULT: Duration = Duration::from_hours(1);
const REFRESH_TIME_MIN: Duration = Duration::from_mins(5);
const REFRESH_TIME_MAX: Duration = Duration::from_hours(24);
const FILE_REFRESH_TIME: Duration = Duration::from_mins(1);
/// The pause before the first retry after a failure. It doubles with each retry, up to a minute.
const RETRY_TIME_MIN: Duration = Duration::from_secs(2);
const RETRY_TIME_MAX: Duration = Duration::from_mins(1);
/// The maximum size of a key file, in bytes: 1 MiB, as for fetched documents.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

pub(crate) struct KeySource {
    names: Vec<String>,
    source: KeyLocation,
    client: Option<Arc<IssuerClient>>,
    current: RwLock<CurrentKeys>,
    /// Held while fetching. Contains the time when a request last caused a fetch.
    fetch_lock: Mutex<Option<Instant>>,
}

#[derive(Clone, Default)]
struct CurrentKeys {
    keys: Arc<KeySet>,
    generation: u64,
    fetched: Option<Instant>,
}

#[derive(Debug)]
pub(crate) enum KeySourceError {
    Fetch(FetchError),
    File(std::io::Error),
    Discovery,
    OtherIssuer(String),
    KeySet,
}

impl fmt::Display for KeySourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::Discovery => f.write_str("the discovery document does not name an issuer and a jwks_uri"),
            Self::OtherIssuer(name) => write!(
                f,
                "the discovery document belongs to the issuer {name:?}; if that is the same issuer, add the name to its \
                 aliases"
            ),
            Self::KeySet => f.write_str("the document is not a JSON Web Key Set"),
        }
    }
}

impl std::error::Error for KeySourceError {}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl KeySource {
    pub(crate) fn new(names: Vec<String>, source: KeyLocation, client: Option<Arc<IssuerClient>>) -> Self {
        Self { names, source, client, current: RwLock::default(), fetch_lock: Mutex::default() }
    }

    pub(crate) async fn refresh(&self) -> Result<Duration, KeySourceError> {
        let _fetching = self.fetch_lock.lock().await;
        self.load().await
    }

    pub(crate) async fn keep_fresh(&self, first: Option<Duration>) {
        let mut retry = RETRY_TIME_MIN;
        let mut pause = first.unwrap_or(retry);
        loop {
            tokio::time::sleep(pause).await;
            pause = match self.refresh().await {
                Ok(pause) => {
                    retry = RETRY_TIME_MIN;
                    pause
                }
                Err(error) => {
                    warn!(issuer = self.name(), "the keys could not be refreshed: {error}");
                    retry = (retry * 2).min(RETRY_TIME_MAX);
                    retry
                }
            };
        }
    }

    /// Returns the key for a token, and the generation of the keys. An unknown ID may belong to a new key, so it causes
    /// a refresh (09 §6 step 5).
    pub(crate) async fn key(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<(Key, u64), TokenError> {
        let current = self.current();
        let found = current.find(id, algorithm);
        let may_be_new = match &found {
            Ok(_) => false,
            Err(TokenError::KeysUnavailable) => true,
            Err(_) => id.is_some(),
        };
        if !may_be_new {
            return found;
        }
        self.refresh_on_demand(current.generation).await;
        self.current().find(id, algorithm)
    }

    pub(crate) fn generation(&self) -> Option<u64> {
        let current = self.current();
        current.is_usable().then_some(current.generation)
    }

    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Runs in a separate task. Otherwise, a client that disconnects would stop the refresh, and no other refresh would
    /// follow within a minute.
    async fn refresh_on_demand(self: &Arc<Self>, seen: u64) {
        let source = Arc::clone(self);
        let refresh = tokio::spawn(async move {
            let mut last = source.fetch_lock.lock().await;
            if source.current().generation != seen
                || last.is_some_and(|last| clock::elapsed_since(last) < DEMAND_INTERVAL_MIN)
            {
                return;
            }
            *last = Some(clock::instant());
            if let Err(error) = source.load().await {
                warn!(issuer = source.name(), "the keys could not be refreshed: {error}");
            }
        });
        if let Err(error) = refresh.await {
            warn!(issuer = self.name(), "the task that refreshes the keys failed: {error}");
        }
    }

    /// Loads the keys. The caller holds `fetch_lock`.
    async fn load(&self) -> Result<Duration, KeySourceError> {
        let (json, pause) = match &self.source {
            KeyLocation::File(path) => (read_file(path).await?, FILE_REFRESH_TIME),
            KeyLocation::KeySet(uri) => self.get_key_set(uri).await?,
            KeyLocation::Discovery(uri) => {
                let document = self.get(uri).await?;
                let discovery: Discovery =
                    serde_json::from_slice(&document.body).map_err(|_| KeySourceError::Discovery)?;
                if !self.names.contains(&discovery.issuer) {
                    return Err(KeySourceError::OtherIssuer(discovery.issuer));
                }
                self.get_key_set(&discovery.jwks_uri.parse().map_err(|_| KeySourceError::Discovery)?).await?
            }
        };
        self.replace(KeySet::parse(&json).map_err(|_| KeySourceError::KeySet)?);
        Ok(pause)
    }

    async fn get_key_set(&self, uri: &Uri) -> Result<(Bytes, Duration), KeySourceError> {
        let document = self.get(uri).await?;
        let pause = document.max_age.unwrap_or(REFRESH_TIME_DEFAULT).clamp(REFRESH_TIME_MIN, REFRESH_TIME_MAX);
        Ok((document.body, jittered(pause)))
    }

    async fn get(&self, uri: &Uri) -> Result<super::fetch::IssuerDocument, KeySourceError> {
        match &self.client {
            Some(client) => client.get(uri).await.map_err(KeySourceError::Fetch),
            None => Err(KeySourceError::Fetch(FetchError::Address(uri.clone()))),
        }
    }

    fn replace(&self, keys: KeySet) {
        let mut current = self.current.write();
        if current.fetched.is_none() || *current.keys != keys {
            info!(issuer = self.name(), keys = keys.len(), "the issuer's keys are new or have changed");
            current.generation += 1;
            current.keys = Arc::new(keys);
        }
        current.fetched = Some(clock::instant());
    }

    fn current(&self) -> CurrentKeys {
        self.current.read().clone()
    }
}

impl CurrentKeys {
    fn is_usable(&self) -> bool {
        self.fetched.is_some_and(|fetched| clock::elapsed_since(fetched) < STALE_TIME_MAX)
    }

    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Result<(Key, u64), TokenError> {
        if !self.is_usable() {
            return Err(TokenError::KeysUnavailable);
        }
        self.keys.find(id, algorithm).map(|key| (key.clone(), self.generation))
    }
}

async fn read_file(path: &Path) -> Result<Bytes, KeySourceError> {
    let path = path.to_owned();
    let read = move || {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Bytes::from(bytes))
    };
    tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other).flatten().map_err(KeySourceError::File)
}

/// Shortens a pause by up to a tenth, so that many servers do not fetch keys at the same moment.
fn jittered(pause: Duration) -> Duration {
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    let share = u32::try_from(random >> 40).unwrap_or_default() % 1000;
    pause.saturating_sub(pause * share / 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::task::{Context, Waker};
    use test_support::minting::KeyPair;

    fn write(path: &Path, pairs: &[&KeyPair]) {
        let keys: Vec<_> = pairs.iter().map(|pair| pair.jwk()).collect();
        std::fs::write(path, json!({ "keys": keys }).to_string()).unwrap();
    }

    #[tokio::test]
    async fn an_unknown_key_causes_one_refresh_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let (a, b, c) = (KeyPair::p256("a"), KeyPair::p256("b"), KeyPair::p256("c"));
        write(&path, &[&a]);
        let source = Arc::new(KeySource::new(vec!["i".into()], KeyLocation::File(path.clone()), None));
        assert_eq!(source.generation(), None);
        source.refresh().await.unwrap();
        assert_eq!(source.generation(), Some(1));
        let key = async |id| source.key(Some(id), Algorithm::Es256).await.map(|(_, generation)| generation);
        write(&path, &[&b]);
        assert_eq!(key("a").await, Ok(1), "known keys cause no refresh");
        assert_eq!(key("b").await, Ok(2));
        assert_eq!(key("a").await, Err(TokenError::UnknownKey), "a removed key no longer counts");
        write(&path, &[&b, &c]);
        assert_eq!(key("c").await, Err(TokenError::UnknownKey), "only one refresh a minute is allowed");
        assert_eq!(key("b").await, Ok(2));
        source.refresh().await.unwrap();
        assert_eq!(key("c").await, Ok(3));
        // Unreadable keys leave the current ones unchanged.
        std::fs::write(&path, "{").unwrap();
        assert!(source.refresh().await.is_err());
        assert_eq!(key("c").await, Ok(3));
    }

    #[tokio::test]
    async fn a_client_that_goes_away_does_not_stop_the_refresh_it_caused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let (a, b) = (KeyPair::p256("a"), KeyPair::p256("b"));
        write(&path, &[&a]);
        let source = Arc::new(KeySource::new(vec!["i".into()], KeyLocation::File(path.clone()), None));
        source.refresh().await.unwrap();
        write(&path, &[&b]);
        let mut gone = Box::pin(source.key(Some("b"), Algorithm::Es256));
        assert!(gone.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(gone);
        assert!(source.key(Some("b"), Algorithm::Es256).await.is_ok());
    }

    #[tokio::test]
    async fn without_keys_a_token_is_neither_valid_nor_invalid() {
        let source = Arc::new(KeySource::new(vec!["i".into()], KeyLocation::File("/nowhere".into()), None));
        assert_eq!(source.key(None, Algorithm::Es256).await.err(), Some(TokenError::KeysUnavailable));
        let long_ago = Instant::now().checked_sub(STALE_TIME_MAX);
        let stale = CurrentKeys { fetched: long_ago, ..CurrentKeys::default() };
        assert_eq!(stale.find(None, Algorithm::Es256).err(), Some(TokenError::KeysUnavailable));
    }

    #[test]
    fn jitter_only_shortens() {
        for _ in 0..100 {
            let pause = jittered(Duration::from_secs(1000));
            assert!((900..=1000).contains(&pause.as_secs()), "{pause:?}");
        }
    }
}
