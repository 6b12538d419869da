//! The commit of a turn: everything that one step of an orchestration changes, or nothing.

use std::sync::Arc;

use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};

use crate::clock::Time;
use crate::instance::{ENDED, Execution, Instance, Pin, Profile, RUNNING};
use crate::state::{OutgoingMessage, State};
use crate::work::Activity;

/// What a turn has decided.
pub(crate) struct Turn {
    pub(crate) execution: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) work: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

impl State {
    /// Ends the lease of `token` with everything the turn has decided.
    pub(crate) fn commit_turn(&mut self, now: Time, token: &str, turn: Turn) -> Result<(), String> {
        let id = self.held(now, token)?;
        let letters = turn.messages.into_iter().map(OutgoingMessage::new).collect::<Result<Vec<_>, _>>()?;
        let activities = turn.work.into_iter().map(Activity::new).collect::<Result<Vec<_>, _>>()?;
        let rank = self.number();
        let instance = self.instances.get_mut(&id).expect("a held instance is stored");
        instance.admits(turn.execution, &turn.events)?;

        // Nothing below can fail.
        self.turns.remove(token);
        instance.inbox.complete();
        instance.describe(turn.execution, &turn.events, &turn.metadata, now, rank);
        instance.append(turn.execution, turn.events).expect("these events were admitted");
        if let Some(parent) = instance.profile.as_ref().and_then(|profile| profile.parent.clone()) {
            self.children.entry(parent).or_default().insert(Arc::clone(&id));
        }
        for activity in activities {
            self.enqueue_work(now, activity);
        }
        // After the new work: what is scheduled and cancelled in one turn is never seen by a worker.
        for activity in &turn.cancelled {
            self.work.cancel(&activity.instance, activity.execution_id, activity.activity_id);
        }
        for letter in letters {
            let visible = letter.visible(now);
            self.enqueue(letter, visible);
        }
        self.reindex(&id);
        Ok(())
    }
}

impl Instance {
    /// Takes over what a turn says about the instance and its execution; `rank` is for a profile that this creates.
    fn describe(&mut self, execution: u64, events: &[Event], metadata: &ExecutionMetadata, now: Time, rank: u64) {
        if let (Some(name), Some(version)) = (&metadata.orchestration_name, &metadata.orchestration_version) {
            let profile = self.profile.get_or_insert_with(|| Profile {
                rank,
                name: String::new(),
                version: String::new(),
                parent: metadata.parent_instance_id.clone(),
                current: execution,
                created: now,
                updated: now,
                custom_status: None,
                custom_status_version: 0,
            });
            (profile.name, profile.version) = (name.clone(), version.clone());
        }
        if let Some(profile) = &mut self.profile {
            profile.current = profile.current.max(execution);
            profile.updated = now;
            let updated = events.iter().rev().find_map(|event| match &event.kind {
                EventKind::CustomStatusUpdated { status } => Some(status),
                _ => None,
            });
            if let Some(status) = updated {
                profile.custom_status.clone_from(status);
                profile.custom_status_version += 1;
            }
        }

        let execution = self.executions.entry(execution).or_insert_with(|| Execution::starting(now));
        if let Some(version) = &metadata.pinned_duroxide_version {
            execution.pin = Some(Pin::of(version));
        }
        if let Some(status) = &metadata.status {
            execution.status.clone_from(status);
            execution.output.clone_from(&metadata.output);
            execution.completed = (status != RUNNING).then_some(now);
        }

        events.iter().for_each(|event| self.kv.apply(event));
        if metadata.status.as_deref().is_some_and(|status| ENDED.contains(&status)) {
            self.kv.commit();
        }
    }
}
