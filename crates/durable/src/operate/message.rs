//! Starting an instance, and messages to one.

use std::sync::Arc;

use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::WorkItem;
use reveille_pg::audit::Entry;
use serde::Serialize;
use sqlx::Row;
use utoipa::ToSchema;

use crate::error::{Error, Result};
use crate::inspect::{Instances, Status, json_text, maybe_text, text};
use crate::text::escape;
use crate::write::{CommitWrite, Message};

/// duroxide gives sub-orchestrations ids with this part, and rejects a start with it.
const RESERVED: &str = "sub::";
/// The longest instance id, in bytes: an index entry has at most a third of a page.
pub(crate) const ID_MAX: usize = 1_000;

/// An instance to start.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) instance: String,
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) input: String,
}

/// The result of a start.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StartedInstance)]
pub(crate) struct Started {
    /// Its id.
    pub(crate) instance: String,
    /// Whether it was started before; nothing was changed then.
    pub(crate) existed: bool,
    /// Its state.
    pub(crate) status: Status,
}

/// The result of an event or a cancellation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SentMessage)]
pub(crate) struct Sent {
    /// The instance that gets it.
    pub(crate) instance: String,
    /// The state of the instance when the message was sent.
    pub(crate) status: Status,
}

/// What is known of an instance.
pub(crate) struct Known {
    pub(crate) status: Status,
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) parent: Option<String>,
}

impl Instances {
    /// Starts an instance. Repeating it changes nothing: an instance of the same orchestration and version counts as
    /// started by it.
    pub(crate) async fn begin(&self, start: Start) -> Result<Started> {
        let Start { instance, name, version, input } = start;
        check_id(&instance)?;
        if instance.contains(RESERVED) {
            let reason = format!("must not contain {RESERVED:?}, which marks sub-orchestrations, got {instance:?}");
            return Err(Error::Invalid { what: "instance", reason });
        }
        if let Some(known) = self.known(&instance).await? {
            let same_version = version.is_none() || known.version.is_none() || known.version == version;
            if known.name != name || !same_version {
                let version = known.version.map(|version| format!(" {version}")).unwrap_or_default();
                let what = format!("an instance {instance:?} of {:?}{version} exists", known.name);
                return Err(Error::NotAllowed { what });
            }
            return Ok(Started { instance, existed: true, status: known.status });
        }
        let item = WorkItem::StartOrchestration {
            instance: instance.clone(),
            orchestration: name,
            input,
            version,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: INITIAL_EXECUTION_ID,
        };
        self.send(&item).await?;
        Ok(Started { instance, existed: false, status: Status::Pending })
    }

    /// Raises an event: every subscription that is open gets it, and one that is not open yet does not, unless it is put
    /// into the queue of that name.
    pub(crate) async fn raise(&self, instance: &str, name: String, data: String, queue: bool) -> Result<Sent> {
        let status = self.not_ended(instance).await?;
        let instance = instance.to_owned();
        let item = match queue {
            true => WorkItem::QueueMessage { instance: instance.clone(), name, data },
            false => WorkItem::ExternalRaised { instance: instance.clone(), name, data },
        };
        self.send(&item).await?;
        Ok(Sent { instance, status })
    }

    /// Asks an instance to end, with its sub-orchestrations: its next turn fails it with the reason.
    pub(crate) async fn cancel(&self, instance: &str, reason: String) -> Result<Sent> {
        let status = self.not_ended(instance).await?;
        let instance = instance.to_owned();
        let item = WorkItem::CancelInstance { instance: instance.clone(), reason };
        match Entry::new("instance.cancel", &instance) {
            Some(entry) => self.send_audited(&item, entry).await?,
            None => self.send(&item).await?,
        }
        Ok(Sent { instance, status })
    }

    /// What is known of an instance. `None`: it neither exists nor was it started.
    pub(crate) async fn known(&self, instance: &str) -> Result<Option<Known>> {
        let id = escape(instance).into_owned();
        let rows = self.ask("look up an instance", || sqlx::query(&self.inner.sql.known).bind(id.clone())).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let status: Option<String> = row.try_get("status").map_err(reveille_pg::Error::from)?;
        Ok(Some(match status {
            Some(status) => Known {
                status: Status::stored(&status),
                name: text(row, "orchestration_name")?,
                version: maybe_text(row, "orchestration_version")?,
                parent: maybe_text(row, "parent_instance_id")?,
            },
            None => Known {
                status: Status::Pending,
                name: json_text(row, "orchestration_name")?.unwrap_or_default(),
                version: None,
                parent: None,
            },
        }))
    }

    async fn not_ended(&self, instance: &str) -> Result<Status> {
        let known = self.known(instance).await?;
        let known = known.ok_or_else(|| Error::NotFound { instance: instance.to_owned() })?;
        if known.status.has_ended() {
            let what = format!("instance {instance:?} has ended: it is {}", known.status.name());
            return Err(Error::NotAllowed { what });
        }
        Ok(known.status)
    }

    /// Sends a message in a transaction of its own, with a row of the audit.
    async fn send_audited(&self, item: &WorkItem, entry: Entry) -> Result<()> {
        let message = message(item)?;
        let provider = &self.inner.provider;
        let query = || provider.enqueue_query(message.clone());
        provider.inner.db.act("send a message", Some(entry), query, |_| true).await?;
        provider.inner.count_write();
        Ok(())
    }

    async fn send(&self, item: &WorkItem) -> Result<()> {
        let message = message(item)?;
        let inner = &self.inner.provider.inner;
        let sent = inner.commits.submit(CommitWrite::Message(Arc::new(message))).await;
        inner.count_write();
        Ok(sent.map(drop)?)
    }
}

fn message(item: &WorkItem) -> Result<Message> {
    Message::new("enqueue_for_orchestrator", item, None)
        .map_err(|error| Error::Invalid { what: "item", reason: error.message })
}

/// Checks that an id can be stored.
pub(crate) fn check_id(instance: &str) -> Result<()> {
    if instance.is_empty() || instance.len() > ID_MAX {
        let reason = format!("must have between 1 and {ID_MAX} bytes, got {}", instance.len());
        return Err(Error::Invalid { what: "instance", reason });
    }
    Ok(())
}
