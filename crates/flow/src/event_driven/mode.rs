//! How steps are claimed, of all namespaces at once.
//!
//! What each namespace is set to is in the database, and counts for all servers from the moment it changes. Setting a mode sets all of them in one statement; [`Flow::put_namespace`](crate::Flow::put_namespace) sets one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::claim::NAMES_MAX;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::namespace::{self, NamespaceChange, check_name};

/// How the steps of all namespaces are claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OrchestrationMode {
    /// How.
    pub mode: Mode,
    /// Whether what was ready for long, and nobody heard of, is looked for.
    pub fallback_enabled: bool,
}

/// How the steps of all namespaces are claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "http", schema(as = OrchestrationModeKind))]
pub enum Mode {
    /// By asking now and then; of namespaces that are made later, too.
    PollingOnly,
    /// When they are there; of namespaces that are made later, too.
    EventDrivenOnly,
    /// Of these so, and of those so. Namespaces that are not named stay as they are.
    Hybrid {
        /// When they are there.
        event_namespaces: BTreeSet<String>,
        /// By asking now and then.
        polling_namespaces: BTreeSet<String>,
    },
}

impl Flow {
    /// Sets how the steps of all namespaces are claimed, for all servers, from now on; workers that wait change over at once. A namespace that is only listened to ([`Shadow`](crate::Mode::Shadow)) stays so unless it is named; one
    /// that is named and not there is made.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a namespace that is named twice or cannot be; else the database's.
    pub async fn set_mode(&self, mode: &OrchestrationMode) -> Result<()> {
        let inner = &self.inner;
        let (all, events, polls): (_, Vec<&str>, Vec<&str>) = match &mode.mode {
            Mode::PollingOnly => (Some(namespace::Mode::Polling), vec![], vec![]),
            Mode::EventDrivenOnly => (Some(namespace::Mode::EventDriven), vec![], vec![]),
            Mode::Hybrid { event_namespaces, polling_namespaces } => {
                if let Some(both) = event_namespaces.intersection(polling_namespaces).next() {
                    return Err(Error::invalid("mode", format!("it names {both:?} twice")));
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
        inner.db.ask("set the mode of all namespaces", query).await?;
        inner.ring_namespaces();
        self.namespaces().await?;
        Ok(())
    }

    /// How the steps of all namespaces are claimed: `Hybrid`, unless it is alike. Namespaces that are only listened to are not mentioned.
    ///
    /// # Errors
    /// The database's.
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
