//! Verifies tokens, and creates and revokes them.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::{Component, Database, Schema};
use reveille_wake::{Channel, Consumer, Payload, Wake};
use reveille_web::{Credentials, Grant, Principal, Role};
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::audit::Audit;
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::revision::{self, Revisions};
use crate::secret::{Hash, Secret};
use crate::session::{NewSession, Sessions};
use crate::store::{NewToken, Store, Stored, component};

/// The channel of revocations.
const CHANNEL: &str = "access";
/// How often the use of tokens is recorded.
const TOUCH_EVERY: Duration = Duration::from_secs(60);
/// Lookups at a time: invented tokens must not take all connections of the pool.
const LOOKUPS: usize = 4;
/// The shortest admin token, in bytes.
const ADMIN_TOKEN_MIN: usize = 16;

/// The admin token of the configuration, which is not in the database. Kept as its hash.
#[derive(Clone, Debug)]
pub struct AdminToken(Hash);

impl AdminToken {
    /// Reads it.
    ///
    /// # Errors
    /// Why it is not accepted, without the text itself.
    pub fn new(text: &str) -> std::result::Result<AdminToken, String> {
        if text.len() < ADMIN_TOKEN_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("the admin token must have at least {ADMIN_TOKEN_MIN} printable ASCII characters"));
        }
        Ok(AdminToken(Hash::of(text.as_bytes())))
    }

    /// The administrator, if `text` is the token.
    pub fn verify(&self, text: &str) -> Option<Principal> {
        let grants = vec![Grant::everything(Role::Admin)];
        (self.0 == Hash::of(text.as_bytes())).then(|| Principal::new("admin", Credentials::AdminToken, grants, true))
    }
}

/// The tokens of one database and schema. Cheap to clone.
#[derive(Clone)]
pub struct Tokens(Arc<Inner>);

struct Inner {
    state: Arc<State>,
    wake: Wake,
    channel: Channel,
    revisions: Consumer<Revisions>,
    lookups: Semaphore,
    audit: Audit,
    tasks: [AbortHandle; 2],
}

/// What the tasks use, too.
struct State {
    store: Store,
    sessions: Sessions,
    cache: Mutex<Cache>,
    used: Mutex<HashSet<Uuid>>,
    /// Signals the first use after the uses were recorded.
    first_use: Notify,
    /// Signals the first token in memory: before it, there is nothing to watch.
    first_token: Notify,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Tokens {
    /// Starts to verify tokens. Does not wait for the database, and reads nothing before a token is sent.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(db: &Database, schema: &Schema, wake: reveille_wake::Options) -> Tokens {
        let wake = Wake::start(db, schema, wake);
        let channel = wake.channel(CHANNEL, Payload::Empty);
        let revisions = wake.consumer("access", Revisions::new(schema, channel.clone()));
        let state = Arc::new(State {
            store: Store::new(db, schema),
            sessions: Sessions::new(db, schema),
            cache: Mutex::default(),
            used: Mutex::default(),
            first_use: Notify::new(),
            first_token: Notify::new(),
        });
        let watching = tokio::spawn(watch(state.clone(), revisions.clone())).abort_handle();
        let recording = tokio::spawn(record(state.clone())).abort_handle();
        let (lookups, tasks) = (Semaphore::new(LOOKUPS), [watching, recording]);
        let audit = Audit::new(db, schema);
        Tokens(Arc::new(Inner { state, wake, channel, revisions, lookups, audit, tasks }))
    }

    /// The database objects of this crate and its engine, in order.
    pub fn components() -> Vec<Component> {
        vec![Wake::component(), component()]
    }

    /// The client of a token. `None`: there is no such token, or it is not valid any more.
    ///
    /// # Errors
    /// [`Error::Database`], if it has to be read and cannot be.
    pub async fn verify(&self, text: &str) -> Result<Option<Principal>> {
        let found = self.find(text).await?;
        Ok(found.filter(|principal| principal.credentials() == Credentials::Token))
    }

    /// The user of a session. `None`: there is no such session, or it has ended.
    ///
    /// # Errors
    /// [`Error::Database`], if it has to be read and cannot be.
    pub async fn verify_session(&self, text: &str) -> Result<Option<Principal>> {
        let found = self.find(text).await?;
        Ok(found.filter(|principal| principal.credentials() == Credentials::Session))
    }

    /// Opens a session. Its secret is returned only here.
    ///
    /// # Errors
    /// [`Error::Random`], [`Error::Database`]. The session may be open.
    pub async fn open_session(&self, session: NewSession) -> Result<Secret> {
        self.0.state.sessions.open(session).await
    }

    /// Opens a session of a token, which ends with it. `None`: there is no such token, or it is not valid any more.
    ///
    /// # Errors
    /// As [`Tokens::open_session`].
    pub async fn open_token_session(&self, token: &str) -> Result<Option<Secret>> {
        match Secret::parse(token) {
            Some(secret) => self.0.state.sessions.open_of_token(secret.hash()).await,
            None => Ok(None),
        }
    }

    /// Ends a session on every server, and its requests. A session that does not exist is no error.
    ///
    /// # Errors
    /// [`Error::Database`]. The session may have ended: repeat it.
    pub async fn end_session(&self, text: &str) -> Result<()> {
        let Some(hash) = Secret::parse(text).map(|secret| secret.hash()) else { return Ok(()) };
        let wake_up = [self.0.channel.wake_up()];
        self.0.state.sessions.end(hash, Wake::notifications(&wake_up)).await?;
        self.0.state.cache.lock().remove(&hash);
        self.0.wake.wake_local(&wake_up);
        Ok(())
    }

    /// The client of a token or a session.
    async fn find(&self, text: &str) -> Result<Option<Principal>> {
        let Some(hash) = Secret::parse(text).map(|secret| secret.hash()) else { return Ok(None) };
        let Inner { state, wake, lookups, .. } = &*self.0;
        let fresh = || state.cache.lock().fresh(&hash, wake.is_connected(), Instant::now());
        if let Some((id, principal)) = fresh() {
            state.used(id);
            return Ok(Some(principal));
        }
        let Ok(_lookup) = lookups.acquire().await else { return Ok(None) };
        // Another request with the same token may have read it meanwhile.
        let verified = match fresh() {
            Some(verified) => Some(verified),
            None => state.read(hash).await?,
        };
        Ok(verified.map(|(id, principal)| {
            state.used(id);
            principal
        }))
    }

    /// Creates a token. Its text is returned only here.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Taken`], [`Error::Random`], [`Error::Database`]. No token was created.
    pub async fn create(&self, token: NewToken, creator: &str) -> Result<(Secret, Stored)> {
        let secret = Secret::random().map_err(Error::Random)?;
        let stored = self.0.state.store.create(token, &secret, creator).await?;
        Ok((secret, stored))
    }

    /// A page of tokens by name, and whether there are more.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<(Vec<Stored>, bool)> {
        self.0.state.store.list(after, limit).await
    }

    /// Revokes a token on every server, and ends its requests. Returns its name; `None`: there is no such token.
    ///
    /// # Errors
    /// [`Error::Database`]. The token may be revoked: repeat it.
    pub async fn revoke(&self, id: Uuid) -> Result<Option<String>> {
        let wake_up = [self.0.channel.wake_up()];
        let name = self.0.state.store.revoke(id, Wake::notifications(&wake_up)).await?;
        self.0.wake.wake_local(&wake_up);
        Ok(name)
    }

    /// The audit.
    pub fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// Stops watching for revocations.
    pub async fn close(&self) {
        self.0.revisions.close().await;
    }
}

impl State {
    async fn read(&self, hash: Hash) -> Result<Option<(Uuid, Principal)>> {
        let now = Instant::now();
        let found = self.store.find(&[hash]).await?.into_iter().find(|found| found.hash == hash);
        let mut cache = self.cache.lock();
        let Some(found) = found else {
            cache.remove(&hash);
            return Ok(None);
        };
        self.first_token.notify_one();
        Ok(Some(cache.insert(found, now)))
    }

    fn used(&self, id: Uuid) {
        let mut used = self.used.lock();
        if used.insert(id) && used.len() == 1 {
            self.first_use.notify_one();
        }
    }

    /// Reads all tokens in memory again.
    async fn read_again(&self) -> Result<()> {
        let hashes = self.cache.lock().hashes();
        if hashes.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let found = self.store.find(&hashes).await?;
        let valid = found.iter().map(|found| found.hash).collect();
        let mut cache = self.cache.lock();
        cache.retain(&hashes, &valid);
        found.into_iter().for_each(|found| drop(cache.insert(found, now)));
        Ok(())
    }
}

/// Reads the tokens in memory again after each revocation.
async fn watch(state: Arc<State>, revisions: Consumer<Revisions>) {
    state.first_token.notified().await;
    let mut seen = None;
    while let Some(revision) = revision::next(&revisions, seen).await {
        match state.read_again().await {
            Ok(()) => seen = Some(revision),
            Err(error) => {
                tracing::warn!(error = reveille_pg::causes(&error), "reading tokens again failed; retrying");
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Records the use of tokens, a minute after the first of them.
async fn record(state: Arc<State>) {
    loop {
        state.first_use.notified().await;
        sleep(TOUCH_EVERY).await;
        let used: Vec<Uuid> = std::mem::take(&mut *state.used.lock()).into_iter().collect();
        if let Err(error) = state.store.touch(&used).await {
            tracing::debug!(error = reveille_pg::causes(&error), "the use of tokens was not recorded");
        }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}
