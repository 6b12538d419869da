//! What is known of one orchestration instance.
//!
//! The parts come into being apart: messages may wait for an instance that has not been started, history may be
//! appended before a turn has named the orchestration. So each part is there or not on its own account, and an instance
//! *exists* for clients once a turn has given it a [`Profile`].

use std::collections::BTreeMap;

use duroxide::providers::{InstanceInfo, SemverRange};
use duroxide::{Event, EventKind, INITIAL_EXECUTION_ID, SystemStats};
use semver::Version;

use crate::clock::Time;
use crate::history::History;
use crate::inbox::Inbox;
use crate::kv::Kv;

/// The status of an execution that has not ended.
pub(crate) const RUNNING: &str = "Running";
/// The statuses that end an execution.
pub(crate) const ENDED: [&str; 3] = ["Completed", "Failed", "ContinuedAsNew"];

/// A pinned version as the filter compares it: without pre-release and build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pin(u64, u64, u64);

impl Pin {
    pub(crate) fn of(version: &Version) -> Self {
        Self(version.major, version.minor, version.patch)
    }

    pub(crate) fn within(self, range: &SemverRange) -> bool {
        Self::of(&range.min) <= self && self <= Self::of(&range.max)
    }
}

/// All that is stored under one instance id.
#[derive(Debug, Default)]
pub(crate) struct Instance {
    pub(crate) profile: Option<Profile>,
    pub(crate) executions: BTreeMap<u64, Execution>,
    pub(crate) histories: BTreeMap<u64, History>,
    pub(crate) kv: Kv,
    pub(crate) inbox: Inbox,
}

/// What a turn has said about the instance.
#[derive(Debug)]
pub(crate) struct Profile {
    /// Rank among all profiles by their creation: times may be equal.
    pub(crate) rank: u64,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) parent: Option<String>,
    pub(crate) current: u64,
    pub(crate) created: Time,
    pub(crate) updated: Time,
    pub(crate) custom_status: Option<String>,
    /// Changes of the custom status so far.
    pub(crate) custom_status_version: u64,
}

/// One run of the instance; `continue_as_new` begins the next.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) status: String,
    pub(crate) output: Option<String>,
    pub(crate) pin: Option<Pin>,
    pub(crate) started: Time,
    /// `None` while it runs.
    pub(crate) completed: Option<Time>,
}

impl Execution {
    pub(crate) fn starting(now: Time) -> Self {
        Self { status: RUNNING.to_owned(), output: None, pin: None, started: now, completed: None }
    }

    pub(crate) fn completed_before(&self, millis: u64) -> bool {
        self.completed.is_some_and(|completed| completed.millis() < millis)
    }
}

impl Instance {
    /// The highest execution that a turn has made; the first if there is none yet.
    pub(crate) fn latest(&self) -> u64 {
        self.executions.last_key_value().map_or(INITIAL_EXECUTION_ID, |(id, _)| *id)
    }

    /// The execution that clients and the capability filter look at.
    pub(crate) fn current(&self) -> Option<&Execution> {
        self.executions.get(&self.profile.as_ref()?.current)
    }

    pub(crate) fn pin(&self) -> Option<Pin> {
        self.current()?.pin
    }

    /// Name and version, from a turn or else from the event that started it; `None` if nothing has started it.
    pub(crate) fn identity(&self) -> Option<(&str, &str)> {
        match &self.profile {
            Some(profile) => Some((&profile.name, &profile.version)),
            None => self.histories.get(&self.latest())?.started(),
        }
    }

    /// The events of `execution`, none if it has none; the message says what cannot be read.
    pub(crate) fn read(&self, execution: u64) -> Result<Vec<Event>, String> {
        self.histories.get(&execution).map_or_else(|| Ok(Vec::new()), History::read)
    }

    /// Whether `events` can be appended to `execution`; the message says why not.
    pub(crate) fn admits(&self, execution: u64, events: &[Event]) -> Result<(), String> {
        self.histories.get(&execution).unwrap_or(&History::default()).admits(events)
    }

    /// Appends `events` to `execution`, or changes nothing; the message says why not.
    pub(crate) fn append(&mut self, execution: u64, events: Vec<Event>) -> Result<(), String> {
        self.admits(execution, &events)?;
        if !events.is_empty() {
            self.histories.entry(execution).or_default().append(events);
        }
        Ok(())
    }

    pub(crate) fn events(&self) -> u64 {
        self.histories.values().map(History::len).sum::<usize>() as u64
    }

    /// Nothing is left that would have to be remembered.
    pub(crate) fn is_blank(&self) -> bool {
        self.profile.is_none()
            && self.executions.is_empty()
            && self.histories.is_empty()
            && self.kv.is_empty()
            && self.inbox.is_empty()
    }

    /// `None` if no turn has given it a profile.
    pub(crate) fn info(&self, id: &str) -> Option<InstanceInfo> {
        let profile = self.profile.as_ref()?;
        let execution = self.current();
        Some(InstanceInfo {
            instance_id: id.to_owned(),
            orchestration_name: profile.name.clone(),
            orchestration_version: profile.version.clone(),
            current_execution_id: profile.current,
            status: execution.map_or_else(|| "Unknown".to_owned(), |execution| execution.status.clone()),
            output: execution.and_then(|execution| execution.output.clone()),
            created_at: profile.created.millis(),
            updated_at: profile.updated.millis(),
            parent_instance_id: profile.parent.clone(),
        })
    }

    /// `None` if no turn has given it a profile; the message says what cannot be read.
    pub(crate) fn stats(&self) -> Result<Option<SystemStats>, String> {
        let Some(profile) = &self.profile else { return Ok(None) };
        let history = self.histories.get(&profile.current);
        let first = history.map(|history| history.get(duroxide::INITIAL_EVENT_ID)).transpose()?.flatten();
        let carried = match first.map(|event| event.kind) {
            Some(EventKind::OrchestrationStarted { carry_forward_events: Some(events), .. }) => events.len(),
            _ => 0,
        };
        let values = self.kv.all();
        Ok(Some(SystemStats {
            history_event_count: history.map_or(0, History::len) as u64,
            history_size_bytes: history.map_or(0, History::bytes),
            queue_pending_count: carried as u64,
            kv_user_key_count: values.len() as u64,
            kv_total_value_bytes: values.values().map(String::len).sum::<usize>() as u64,
        }))
    }
}
