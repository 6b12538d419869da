//! Setting the mode of all namespaces at once.
//!
//! The mode is a setting of each namespace in the database, and a change affects all servers at once. This sets all
//! namespaces in one statement; [`Flow::put_namespace`](crate::Flow::put_namespace) sets one.

use reveille_pg::audit::Entry;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::claim::NAMES_MAX;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::namespace::{self, NamespaceChange, check_name};

/// How the steps of all namespaces are claimed, and whether the fallback poller looks for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OrchestrationMode {
    /// How steps are claimed.
    pub mode: Mode,
    /// Whether the fallback poller looks for steps that stay unclaimed.
    pub fallback_enabled: bool,
}

/// How the steps of all namespaces are claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "http", schema(as = OrchestrationModeKind))]
pub enum Mode {
    /// By polling, also in namespaces created later.
    PollingOnly,
    /// By waiting for events, also in namespaces created later.
    EventDrivenOnly,
    /// Each namespace as listed. Others do not change.
    Hybrid {
        /// By waiting for events.
        event_namespaces: BTreeSet<String>,
        /// By polling.
        polling_namespaces: BTreeSet<String>,
    },
}

impl Flow {
    /// Sets the mode of all namespaces, on all servers; claims that are waiting change at once. A namespace in
    /// [`Shadow`](crate::Mode::Shadow) mode stays so unless it is named. A named namespace that does not exist is
    /// created.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a namespace that is named twice or has an invalid name; otherwise a database error.
    pub async fn set_mode(&self, mode: &OrchestrationMode) -> Result<()> {
        let inner = &self.inner;
        let (all, events, polls): (_, Vec<&str>, Vec<&str>) = match &mode.mode {
            Mode::PollingOnly => (Some(namespace::Mode::Polling), vec![], vec![]),
            Mode::EventDrivenOnly => (Some(namespace::Mode::EventDriven), vec![], vec![]),
            Mode::Hybrid { event_namespaces, polling_namespaces } => {
                if let Some(both) = event_namespaces.intersection(polling_namespaces).next() {
                    return Err(Error::invalid("mode", format!("must not name {both:?} twice")));
                }
                let named = event_namespaces.len() + polling_namespaces.len();
                if named > NAMES_MAX {
                    return Err(Error::invalid(
                        "mode",
                        format!("must name at most {NAMES_MAX} namespaces, got {named}"),
                    ));
                }
                event_namespaces.union(polling_namespaces).try_for_each(|name| check_name(name))?;
                let events = event_namespaces.iter().map(String::as_str).collect();
                (None, events, polling_namespaces.iter().map(String::as_str).collect())
            }
        };
        let known: BTreeSet<String> = self.namespaces().await?.into_iter().map(|one| one.name).collect();
        for name in events.iter().chain(&polls).filter(|name| !known.contains(**name)) {
            self.put_namespace(name, &NamespaceChange::default()).await?;
        }
        let query = || {
            sqlx::query(&inner.sql.set_mode)
                .bind(all.map(namespace::Mode::word))
                .bind(&events)
                .bind(&polls)
                .bind(mode.fallback_enabled)
                .bind(inner.namespaces.channel_name())
        };
        inner.db.act("set the mode of all namespaces", Entry::new("mode.set", "*"), query, |_| true).await?;
        inner.notify_namespaces();
        self.namespaces().await?;
        Ok(())
    }

    /// The mode of all namespaces; `Hybrid` if they differ. Namespaces in shadow mode are not included.
    ///
    /// # Errors
    /// A database error.
    pub async fn mode(&self) -> Result<OrchestrationMode> {
        let all = self.namespaces().await?;
        let of = |mode| -> BTreeSet<String> {
            all.iter().filter(|one| one.settings.mode == mode).map(|one| one.name.clone()).collect()
        };
        let (events, polls) = (of(namespace::Mode::EventDriven), of(namespace::Mode::Polling));
        let mode = match (events.is_empty(), polls.is_empty()) {
            (_, true) => Mode::EventDrivenOnly,
            (true, false) => Mode::PollingOnly,
            (false, false) => Mode::Hybrid { event_namespaces: events, polling_namespaces: polls },
        };
        Ok(OrchestrationMode { mode, fallback_enabled: all.iter().all(|one| one.settings.fallback_enabled) })
    }
}
