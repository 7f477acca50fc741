//! A cache of valid tokens by their digest, so that a token is not checked again in every request.
//!
//! The cache never holds a token itself. When an issuer's keys change, its tokens are checked again.

use super::claims::Claims;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The maximum time until a token is checked again (09 §6).
const CACHE_TIME_MAX: Duration = Duration::from_mins(5);
const TOKENS_MAX: usize = 10_000;

#[derive(Debug, Clone)]
pub(crate) struct CachedToken {
    pub(crate) issuer: usize,
    pub(crate) generation: u64,
    pub(crate) claims: Arc<Claims>,
    until: SystemTime,
}

pub(crate) type Digest = [u8; 32];

#[derive(Default)]
pub(crate) struct TokenCache(Mutex<HashMap<Digest, CachedToken>>);

pub(crate) fn digest_of(token: &str) -> Digest {
    digest(&SHA256, token.as_bytes()).as_ref().try_into().unwrap_or_default()
}

impl TokenCache {
    pub(crate) fn get(&self, digest: &Digest, now: SystemTime) -> Option<CachedToken> {
        let known = self.0.lock();
        known.get(digest).filter(|known| now < known.until).cloned()
    }

    pub(crate) fn insert(&self, digest: Digest, issuer: usize, generation: u64, claims: Arc<Claims>, now: SystemTime) {
        let until = claims.expires.min(now + CACHE_TIME_MAX);
        if until <= now {
            return;
        }
        let mut known = self.0.lock();
        if known.len() >= TOKENS_MAX {
            known.retain(|_, known| now < known.until);
        }
        if known.len() >= TOKENS_MAX {
            // Only valid tokens reach this point, so this is rare. Clearing the cache costs one extra check of each
            // token.
            known.clear();
        }
        known.insert(digest, CachedToken { issuer, generation, claims, until });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn claims(expires: u64) -> Arc<Claims> {
        Arc::new(Claims {
            principal: super::super::claims::Principal::default(),
            audiences: vec![],
            expires: at(expires),
        })
    }

    #[test]
    fn tokens_stay_until_they_expire_and_no_longer_than_five_minutes() {
        let cache = TokenCache::default();
        let (short, long) = (digest_of("short"), digest_of("long"));
        cache.insert(short, 0, 1, claims(1010), at(1000));
        cache.insert(long, 0, 1, claims(9000), at(1000));
        cache.insert(digest_of("expired"), 0, 1, claims(999), at(1000));
        let known = |digest, seconds| cache.get(digest, at(seconds)).is_some();
        assert!(known(&short, 1009) && !known(&short, 1010));
        assert!(known(&long, 1299) && !known(&long, 1300));
        assert!(!known(&digest_of("expired"), 1000));
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = TokenCache::default();
        for number in 0..=TOKENS_MAX {
            cache.insert(digest_of(&number.to_string()), 0, 1, claims(9000), at(1000));
        }
        assert!(cache.0.lock().len() <= TOKENS_MAX);
    }
}
