//! Namespaces: how the steps of each are claimed and handed out, and what this process knows of that.
//!
//! A namespace comes to be with its first template, or before: it can be registered. What it is set to is in the database, so that all servers do the same, and is remembered by every process
//! that asked once; a change rings, and everybody reads again.

pub(crate) mod template;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use reveille_wake::Channel;
use serde::{Deserialize, Deserializer, Serialize};
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use tokio::sync::{OnceCell, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::error::{Error, Result};
use crate::events::change_watch::{self, PAUSE, Subject};
use crate::flow::{Flow, Inner};
use crate::name;
use crate::stored::{unknown, words};
use crate::task::retention::{FAILED_RETENTION_DEFAULT, RETENTION_DEFAULT, check_retention};

/// The shortest and the longest pause between questions, in milliseconds.
const POLL_MS: std::ops::RangeInclusive<u32> = 10..=3_600_000;

words! {
    /// How the steps of a namespace are claimed.
    Mode {
        /// Claims wait, and are woken when a step is ready.
        EventDriven = "event_driven",
        /// Claims poll at an interval.
        Polling = "polling",
        /// Not at all: notifications are received and measured.
        Shadow = "shadow",
    }
}

words! {
    /// The queue through which the steps of a namespace reach their workers.
    Provider {
        /// The step table itself.
        Table = "table",
        /// PGMQ.
        Pgmq = "pgmq",
        /// RabbitMQ.
        Rabbitmq = "rabbitmq",
    }
}

/// How a namespace is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct NamespaceSettings {
    /// How its steps are claimed.
    pub mode: Mode,
    /// The pause between questions where it is asked.
    #[cfg_attr(feature = "http", schema(minimum = 10, maximum = 3_600_000))]
    pub poll_ms: u32,
    /// Whether what was ready for long, and nobody heard of, is looked for.
    pub fallback_enabled: bool,
    /// Through what its steps are handed out.
    pub provider: Provider,
    /// Whether listeners outside are told of what happens in it.
    pub announces: bool,
    /// For how many seconds tasks are kept after they are complete, cancelled or resolved; `None`: for ever.
    #[cfg_attr(feature = "http", schema(minimum = 60))]
    pub retention_seconds: Option<u64>,
    /// For how many seconds tasks are kept after they failed; `None`: for ever.
    #[cfg_attr(feature = "http", schema(minimum = 60))]
    pub failed_retention_seconds: Option<u64>,
}

impl Default for NamespaceSettings {
    fn default() -> Self {
        NamespaceSettings {
            mode: Mode::EventDriven,
            poll_ms: 1_000,
            fallback_enabled: true,
            provider: Provider::Table,
            announces: false,
            retention_seconds: Some(RETENTION_DEFAULT),
            failed_retention_seconds: Some(FAILED_RETENTION_DEFAULT),
        }
    }
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Namespace {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// How it is set.
    #[serde(flatten)]
    pub settings: NamespaceSettings,
    /// Since when it is there.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// What to change of a namespace. What is not given stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NamespaceChange {
    /// What it is for.
    pub description: Option<String>,
    /// How its steps are claimed.
    pub mode: Option<Mode>,
    /// The pause between questions where it is asked.
    #[cfg_attr(feature = "http", schema(minimum = 10, maximum = 3_600_000))]
    pub poll_ms: Option<u32>,
    /// Whether what was ready for long, and nobody heard of, is looked for.
    pub fallback_enabled: Option<bool>,
    /// Through what its steps are handed out.
    pub provider: Option<Provider>,
    /// Whether listeners outside are told of what happens in it.
    pub announces: Option<bool>,
    /// For how many seconds tasks are kept after they are complete, cancelled or resolved; null: for ever.
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "http", schema(value_type = Option<u64>, minimum = 60))]
    pub retention_seconds: Option<Option<u64>>,
    /// For how many seconds tasks are kept after they failed; null: for ever.
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "http", schema(value_type = Option<u64>, minimum = 60))]
    pub failed_retention_seconds: Option<Option<u64>>,
    /// Of a namespace that is not there yet: the template that it begins with.
    pub template: Option<String>,
}

/// A field that is there: null among what it may be.
fn present<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl Flow {
    /// Makes a namespace, unless it is there, and changes what is given.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what cannot be meant; else the database's.
    pub async fn put_namespace(&self, name: &str, change: &NamespaceChange) -> Result<Namespace> {
        check_name(name)?;
        crate::name::check("description", change.description.as_deref().unwrap_or_default())?;
        check_poll(change.poll_ms)?;
        let inner = &self.inner;
        if let Some(provider) = change.provider {
            inner.providers.get(provider)?;
        }
        check_retention("retention_seconds", change.retention_seconds.flatten())?;
        check_retention("failed_retention_seconds", change.failed_retention_seconds.flatten())?;
        if let Some(template) = &change.template {
            crate::name::check("template", template)?;
        }
        let query = || {
            sqlx::query(&inner.sql.put_namespace)
                .bind(name)
                .bind(change.template.as_deref())
                .bind(change.description.as_deref())
                .bind(change.mode.map(Mode::word))
                .bind(change.poll_ms.map(|ms| ms as i32))
                .bind(change.fallback_enabled)
                .bind(change.provider.map(Provider::word))
                .bind(change.announces)
                .bind(change.retention_seconds.map(stored_retention))
                .bind(change.failed_retention_seconds.map(stored_retention))
        };
        let rows = inner.db.ask("make or change a namespace", query).await?;
        if !rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get::<bool, _>(0)? {
            let template = change.template.as_deref().unwrap_or_default();
            return Err(Error::invalid("template", format!("there is no namespace template {template:?}")));
        }
        inner.ring_namespaces();
        // Tasks may be due to be removed sooner than before.
        inner.wake.wake_up(&[inner.retention_channel.wake_up()]);
        let all = inner.read_namespaces().await?;
        all.get(name).cloned().ok_or_else(|| Error::from(sqlx::Error::RowNotFound))
    }

    /// All namespaces, by name.
    ///
    /// # Errors
    /// The database's.
    pub async fn namespaces(&self) -> Result<Vec<Namespace>> {
        let mut all: Vec<Namespace> = self.inner.read_namespaces().await?.values().cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }
}

pub(crate) fn check_name(namespace: &str) -> Result<()> {
    if namespace.is_empty() {
        return Err(Error::invalid("namespace", "it is empty"));
    }
    name::check("namespace", namespace)
}

/// A retention as `put_namespace` takes it.
fn stored_retention(seconds: Option<u64>) -> i64 {
    seconds.map_or(-1, |seconds| seconds as i64)
}

pub(crate) fn check_poll(ms: Option<u32>) -> Result<()> {
    match ms {
        Some(ms) if !POLL_MS.contains(&ms) => Err(Error::invalid(
            "poll_ms",
            format!("it is {ms}; it must be between {} and {}", POLL_MS.start(), POLL_MS.end()),
        )),
        _ => Ok(()),
    }
}

/// What a process knows of the namespaces.
pub(crate) type Known = Arc<HashMap<String, Namespace>>;

/// The namespaces as this process knows them.
pub(crate) struct Namespaces {
    channel: Channel,
    known: watch::Sender<Known>,
    /// How often they had been changed when they were read.
    version: AtomicI64,
    followed: OnceCell<Following>,
}

impl Namespaces {
    pub(crate) fn new(channel: Channel) -> Namespaces {
        Namespaces { channel, known: watch::Sender::default(), version: AtomicI64::new(-1), followed: OnceCell::new() }
    }

    /// As they are known now; none, before anybody has asked.
    pub(crate) fn now(&self) -> Known {
        self.known.borrow().clone()
    }

    /// Whoever wants to see them when they are known, and every change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Known> {
        self.known.subscribe()
    }

    pub(crate) fn channel_name(&self) -> &str {
        self.channel.name()
    }
}

impl Inner {
    /// Follows the namespaces from now on, if they can be read: whoever commits something has to know whether anybody wants to hear of it.
    pub(crate) async fn follow_namespaces(self: &Arc<Inner>) {
        if let Err(error) = self.known_namespaces().await {
            tracing::warn!(
                error = reveille_pg::causes(&error),
                "namespaces could not be read for now: nothing is announced"
            );
        }
    }

    /// How a namespace is claimed, as far as it is known.
    pub(crate) fn mode_of(&self, namespace: &str) -> Option<Mode> {
        self.namespaces.known.borrow().get(namespace).map(|one| one.settings.mode)
    }

    /// Rings whoever follows the namespaces: one was changed.
    pub(crate) fn ring_namespaces(&self) {
        self.wake.wake_up(&[self.namespaces.channel.wake_up()]);
    }

    /// The namespaces, and word of every change. The first call reads them and follows them from then on: later ones ask nothing.
    pub(crate) async fn known_namespaces(self: &Arc<Inner>) -> Result<watch::Receiver<Known>> {
        let begin = async || {
            let seen = self.namespaces_changed().await?;
            self.read_namespaces().await?;
            Ok::<Following, Error>(Following(tokio::spawn(follow(Arc::downgrade(self), seen)).abort_handle()))
        };
        self.namespaces.followed.get_or_try_init(begin).await?;
        Ok(self.namespaces.known.subscribe())
    }

    /// The same, whenever they can be read: for who has nothing else to do until then.
    pub(crate) async fn namespaces_at_last(self: &Arc<Inner>) -> watch::Receiver<Known> {
        loop {
            match self.known_namespaces().await {
                Ok(known) => return known,
                Err(error) => {
                    tracing::warn!(error = reveille_pg::causes(&error), "namespaces could not be read for now");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn read_namespaces(&self) -> Result<Known> {
        let rows = self.db.ask("read namespaces", || sqlx::query(&self.sql.namespaces)).await?;
        let all: HashMap<String, Namespace> =
            rows.iter().map(|row| Ok((row.try_get("name")?, read(row)?))).collect::<sqlx::Result<_>>()?;
        let version = rows.iter().map(|row| row.try_get::<i64, _>("version")).sum::<sqlx::Result<i64>>()?;
        let all = Arc::new(all);
        // Several may read at a time: an older reading must not come after a newer one, and the same one wakes nobody.
        self.namespaces.known.send_if_modified(|known| {
            let newer = self.namespaces.version.fetch_max(version, Ordering::Relaxed) < version;
            if newer {
                *known = all.clone();
            }
            newer
        });
        Ok(all)
    }

    async fn namespaces_changed(&self) -> Result<i64> {
        let rows = self.db.ask("see whether namespaces changed", || sqlx::query(&self.sql.namespaces_changed)).await?;
        Ok(rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?)
    }
}

/// The task that follows the namespaces: it ends with who wants to know.
#[derive(Debug)]
struct Following(AbortHandle);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads the namespaces again whenever one has changed, for as long as anybody has this flow.
async fn follow(inner: Weak<Inner>, mut seen: i64) {
    loop {
        let Some(change_watches) = inner.upgrade().map(|inner| inner.change_watches.clone()) else { return };
        let Some(version) = change_watch::next(&change_watches, &Subject::Namespaces, Some(seen)).await else { return };
        let Some(inner) = inner.upgrade() else { return };
        match inner.read_namespaces().await {
            Ok(_) => seen = version,
            Err(error) => {
                tracing::warn!(error = reveille_pg::causes(&error), "namespaces could not be read for now");
                sleep(PAUSE).await;
            }
        }
    }
}

fn read(row: &PgRow) -> sqlx::Result<Namespace> {
    Ok(Namespace {
        name: row.try_get("name")?,
        description: row.try_get("description")?,
        settings: settings(row)?,
        created_at: row.try_get("created_at")?,
    })
}

pub(crate) fn settings(row: &PgRow) -> sqlx::Result<NamespaceSettings> {
    let (mode, provider): (&str, &str) = (row.try_get("mode")?, row.try_get("provider")?);
    let seconds = |column: &str| Ok::<_, sqlx::Error>(row.try_get::<Option<i64>, _>(column)?.map(|s| s.max(0) as u64));
    Ok(NamespaceSettings {
        mode: Mode::of(mode).ok_or_else(|| unknown("claim mode", mode))?,
        poll_ms: row.try_get::<i32, _>("poll_ms")?.max(1) as u32,
        fallback_enabled: row.try_get("fallback")?,
        provider: Provider::of(provider).ok_or_else(|| unknown("queue provider", provider))?,
        announces: row.try_get("announces")?,
        retention_seconds: seconds("retention_s")?,
        failed_retention_seconds: seconds("failed_retention_s")?,
    })
}
