//! Verified tokens in memory.
//!
//! A request costs no statement while its token is in here and fresh. The danger is a revoked token that stays: the
//! cache is bounded in time as well as in size, and [`Cache::retain`] ends the requests of those that are gone.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use reveille_web::Principal;
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use crate::secret::Hash;
use crate::store::Found;

/// Bound on the tokens in memory, a kilobyte each.
const TOKENS_MAX: usize = 10_000;
/// How long a token is used without reading it again while revocations are notified. It bounds what a connection that
/// is open here and dead at the server can delay.
const FRESH: Duration = Duration::from_secs(15);
/// The same while revocations are not notified.
const FRESH_ALONE: Duration = Duration::from_secs(1);

/// Verified tokens by their hash.
#[derive(Default)]
pub(crate) struct Cache {
    entries: HashMap<Hash, Entry>,
}

struct Entry {
    id: Uuid,
    principal: Principal,
    /// Ends the requests of this token.
    ended: watch::Sender<bool>,
    expires: Option<Instant>,
    read: Instant,
}

impl Cache {
    /// A token that needs not be read again. `connected`: whether revocations are notified.
    pub(crate) fn fresh(&self, hash: &Hash, connected: bool, now: Instant) -> Option<(Uuid, Principal)> {
        let entry = self.entries.get(hash)?;
        let fresh = if connected { FRESH } else { FRESH_ALONE };
        let valid = entry.expires.is_none_or(|expires| now < expires);
        (valid && now < entry.read + fresh).then(|| (entry.id, entry.principal.clone()))
    }

    /// Adds a token that was read at `now`, or renews it.
    pub(crate) fn insert(&mut self, found: Found, now: Instant) -> (Uuid, Principal) {
        let Found { id, hash, name, grants, payloads, expires_in, credentials } = found;
        let lifetime = |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        // Counted from the end of the read, so that the database agrees when it has passed.
        let expires = expires_in.and_then(|seconds| Instant::now().max(now).checked_add(lifetime(seconds)));
        if let Some(entry) = self.entries.get_mut(&hash) {
            // The end of a token does not change, and a slow read must not seem to move it.
            entry.read = now;
            return (id, entry.principal.clone());
        }
        if self.entries.len() >= TOKENS_MAX {
            // Those in use are read again; their requests go on.
            self.entries.clear();
        }
        let (ended, ending) = watch::channel(false);
        let principal = Principal::new(name, credentials, grants, payloads).ending(expires, ending);
        let entry = Entry { id, principal: principal.clone(), ended, expires, read: now };
        self.entries.insert(hash, entry);
        (id, principal)
    }

    /// Removes a token that is not valid any more, and ends its requests.
    pub(crate) fn remove(&mut self, hash: &Hash) {
        if let Some(entry) = self.entries.remove(hash) {
            entry.ended.send_replace(true);
        }
    }

    /// Removes those of `asked` that are not among `valid`.
    pub(crate) fn retain(&mut self, asked: &[Hash], valid: &HashSet<Hash>) {
        asked.iter().filter(|hash| !valid.contains(*hash)).for_each(|hash| self.remove(hash));
    }

    /// The hashes of all tokens.
    pub(crate) fn hashes(&self) -> Vec<Hash> {
        self.entries.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use reveille_web::{Credentials, Grant, Role};

    use super::*;

    fn found(hash: Hash, expires_in: Option<f64>) -> Found {
        let grants = vec![Grant::everything(Role::Viewer)];
        let credentials = Credentials::Token;
        Found { id: Uuid::nil(), hash, name: "a".to_owned(), grants, payloads: false, expires_in, credentials }
    }

    /// A token is fresh for a bounded time, a shorter one without notifications, and never beyond its end.
    #[tokio::test]
    async fn a_token_is_fresh_for_a_bounded_time() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let (lasting, short) = (Hash::of(b"1"), Hash::of(b"2"));
        cache.insert(found(lasting, None), now);
        cache.insert(found(short, Some(0.5)), now);
        let is_fresh = |hash, connected, after| cache.fresh(&hash, connected, now + after).is_some();
        assert!(is_fresh(lasting, true, FRESH / 2) && !is_fresh(lasting, true, FRESH));
        assert!(is_fresh(lasting, false, FRESH_ALONE / 2) && !is_fresh(lasting, false, FRESH_ALONE));
        assert!(is_fresh(short, true, Duration::ZERO) && !is_fresh(short, true, Duration::from_secs(1)));
    }

    /// A revoked token is gone, and its requests end; a renewed one keeps its requests.
    #[tokio::test]
    async fn the_requests_of_a_revoked_token_end() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let hash = Hash::of(b"1");
        let (_, principal) = cache.insert(found(hash, None), now);
        cache.insert(found(hash, None), now);
        cache.retain(&[hash], &HashSet::new());
        assert!(cache.fresh(&hash, true, now).is_none());
        principal.ended().await;
    }
}
