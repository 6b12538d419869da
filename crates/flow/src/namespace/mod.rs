//! Namespaces and their settings: how the steps of each are claimed and sent to workers.
//!
//! A namespace is created with its first template, or explicitly. Its settings are in the database, so that all servers
//! act alike. A process that has read them keeps them in memory; a change notifies all processes, which read again.

pub(crate) mod template;

use reveille_pg::audit::Entry;
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
use crate::task::retention::{FAILED_RETENTION_DEFAULT, RETENTION_DEFAULT, check_retention};
use crate::task::stored::{unknown, words};

/// The shortest and the longest poll interval, in milliseconds.
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

/// The settings of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct NamespaceSettings {
    /// How its steps are claimed.
    pub mode: Mode,
    /// The poll interval in polling mode, in milliseconds.
    #[cfg_attr(feature = "http", schema(minimum = 10, maximum = 3_600_000))]
    pub poll_ms: u32,
    /// Whether the fallback poller looks for steps that stay unclaimed.
    pub fallback_enabled: bool,
    /// The queue through which its steps reach workers.
    pub provider: Provider,
    /// Whether changes of its tasks are announced to outside listeners.
    pub announces: bool,
    /// How many seconds tasks are kept after they are complete, cancelled or resolved; `None`: forever.
    #[cfg_attr(feature = "http", schema(minimum = 60))]
    pub retention_seconds: Option<u64>,
    /// How many seconds tasks are kept after they failed; `None`: forever.
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
    /// The name of the namespace.
    pub name: String,
    /// A description for people.
    pub description: String,
    /// Its settings.
    #[serde(flatten)]
    pub settings: NamespaceSettings,
    /// When it was created.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// Changes of a namespace. Fields that are not given stay unchanged.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NamespaceChange {
    /// A description for people.
    pub description: Option<String>,
    /// How its steps are claimed.
    pub mode: Option<Mode>,
    /// The poll interval in polling mode, in milliseconds.
    #[cfg_attr(feature = "http", schema(minimum = 10, maximum = 3_600_000))]
    pub poll_ms: Option<u32>,
    /// Whether the fallback poller looks for steps that stay unclaimed.
    pub fallback_enabled: Option<bool>,
    /// The queue through which its steps reach workers.
    pub provider: Option<Provider>,
    /// Whether changes of its tasks are announced to outside listeners.
    pub announces: Option<bool>,
    /// How many seconds tasks are kept after they are complete, cancelled or resolved; null: forever.
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "http", schema(value_type = Option<u64>, minimum = 60))]
    pub retention_seconds: Option<Option<u64>>,
    /// How many seconds tasks are kept after they failed; null: forever.
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "http", schema(value_type = Option<u64>, minimum = 60))]
    pub failed_retention_seconds: Option<Option<u64>>,
    /// For a new namespace: the namespace template with its settings.
    pub template: Option<String>,
}

/// A given field, which may be null.
fn present<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl Flow {
    /// Creates a namespace if it does not exist, and changes the given fields.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid parameter; otherwise a database error.
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
        let entry = Entry::new("namespace.put", name);
        let rows = inner.db.act("make or change a namespace", entry, query, |rows| is_true(rows.first())).await?;
        if !rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get::<bool, _>(0)? {
            let template = change.template.as_deref().unwrap_or_default();
            return Err(Error::invalid("template", format!("there is no namespace template {template:?}")));
        }
        inner.notify_namespaces();
        // The retention of tasks may be over sooner than before.
        inner.wake.wake_up(&[inner.retention_channel.wake_up()]);
        let all = inner.read_namespaces().await?;
        all.get(name).cloned().ok_or_else(|| Error::from(sqlx::Error::RowNotFound))
    }

    /// All namespaces, ordered by name.
    ///
    /// # Errors
    /// A database error.
    pub async fn namespaces(&self) -> Result<Vec<Namespace>> {
        let mut all: Vec<Namespace> = self.inner.read_namespaces().await?.values().cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }
}

/// Whether the first column is true.
pub(crate) fn is_true(row: Option<&sqlx::postgres::PgRow>) -> bool {
    row.is_some_and(|row| row.try_get(0).unwrap_or(false))
}

pub(crate) fn check_name(namespace: &str) -> Result<()> {
    if namespace.is_empty() {
        return Err(Error::invalid("namespace", "must not be empty"));
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
            format!("must be between {} and {}, got {ms}", POLL_MS.start(), POLL_MS.end()),
        )),
        _ => Ok(()),
    }
}

/// Namespaces by name.
pub(crate) type NamespaceMap = Arc<HashMap<String, Namespace>>;

/// The namespaces in memory.
pub(crate) struct Namespaces {
    channel: Channel,
    current: watch::Sender<NamespaceMap>,
    /// The sum of their versions when they were read.
    version: AtomicI64,
    tracking: OnceCell<Tracking>,
}

impl Namespaces {
    pub(crate) fn new(channel: Channel) -> Namespaces {
        Namespaces {
            channel,
            current: watch::Sender::default(),
            version: AtomicI64::new(-1),
            tracking: OnceCell::new(),
        }
    }

    /// The namespaces in memory; empty before they are read for the first time.
    pub(crate) fn current(&self) -> NamespaceMap {
        self.current.borrow().clone()
    }

    /// Receives the namespaces when they are read, and after every change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<NamespaceMap> {
        self.current.subscribe()
    }

    pub(crate) fn channel_name(&self) -> &str {
        self.channel.name()
    }
}

impl Inner {
    /// Keeps the namespaces in memory up to date from now on, if they can be read. Before a write, because its changes
    /// are published only if a namespace wants them.
    pub(crate) async fn track_namespaces(self: &Arc<Inner>) {
        if let Err(error) = self.watch_namespaces().await {
            tracing::warn!(
                error = reveille_pg::causes(&error),
                "reading namespaces failed: changes of tasks are not announced"
            );
        }
    }

    /// The mode of a namespace; `None` if it is not in memory.
    pub(crate) fn mode_of(&self, namespace: &str) -> Option<Mode> {
        self.namespaces.current.borrow().get(namespace).map(|one| one.settings.mode)
    }

    /// Notifies all processes that a namespace was changed.
    pub(crate) fn notify_namespaces(&self) {
        self.wake.wake_up(&[self.namespaces.channel.wake_up()]);
    }

    /// The namespaces and their changes. The first call reads them and keeps them up to date from then on; later calls
    /// send no query.
    pub(crate) async fn watch_namespaces(self: &Arc<Inner>) -> Result<watch::Receiver<NamespaceMap>> {
        let begin = async || {
            let seen = self.namespaces_changed().await?;
            self.read_namespaces().await?;
            Ok::<Tracking, Error>(Tracking(tokio::spawn(track(Arc::downgrade(self), seen)).abort_handle()))
        };
        self.namespaces.tracking.get_or_try_init(begin).await?;
        Ok(self.namespaces.current.subscribe())
    }

    /// The same, but repeated until they can be read.
    pub(crate) async fn wait_for_namespaces(self: &Arc<Inner>) -> watch::Receiver<NamespaceMap> {
        loop {
            match self.watch_namespaces().await {
                Ok(namespaces) => return namespaces,
                Err(error) => {
                    tracing::warn!(error = reveille_pg::causes(&error), "reading namespaces failed; retrying");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn read_namespaces(&self) -> Result<NamespaceMap> {
        let rows = self.db.ask("read namespaces", || sqlx::query(&self.sql.namespaces)).await?;
        let all: HashMap<String, Namespace> =
            rows.iter().map(|row| Ok((row.try_get("name")?, read(row)?))).collect::<sqlx::Result<_>>()?;
        let version = rows.iter().map(|row| row.try_get::<i64, _>("version")).sum::<sqlx::Result<i64>>()?;
        let all = Arc::new(all);
        // Reads may overlap: an older result must not replace a newer one, and an equal one must not wake receivers.
        self.namespaces.current.send_if_modified(|current| {
            let newer = self.namespaces.version.fetch_max(version, Ordering::Relaxed) < version;
            if newer {
                *current = all.clone();
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

/// The task that keeps the namespaces up to date. Dropping this aborts it.
#[derive(Debug)]
struct Tracking(AbortHandle);

impl Drop for Tracking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads the namespaces again whenever one has changed, until the flow is dropped.
async fn track(inner: Weak<Inner>, mut seen: i64) {
    loop {
        let Some(change_watches) = inner.upgrade().map(|inner| inner.change_watches.clone()) else { return };
        let Some(version) = change_watch::next(&change_watches, &Subject::Namespaces, Some(seen)).await else { return };
        let Some(inner) = inner.upgrade() else { return };
        match inner.read_namespaces().await {
            Ok(_) => seen = version,
            Err(error) => {
                tracing::warn!(error = reveille_pg::causes(&error), "reading namespaces failed; retrying");
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
