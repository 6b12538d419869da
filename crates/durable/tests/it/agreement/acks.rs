//! Acks of turns: from what a step says to everything that a turn commits.

use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};
use semver::Version;

use super::pair::{Pair, Side, TIMER, Taken, Verdict};
use super::payload::{NAME, VERSION, activity, message, numbered, raised, started};
use super::step::{Change, Fault, INSTANCES, KEYS, Kind, Pick, Turn, Which};

/// What a turn commits, but for the times of timers.
struct Decided {
    execution: u64,
    events: Vec<Event>,
    work: Vec<WorkItem>,
    /// To whom, what, and what it says.
    messages: Vec<(String, Kind, String)>,
    cancelled: Vec<ScheduledActivityIdentifier>,
    metadata: ExecutionMetadata,
}

impl Pair<'_> {
    pub(super) async fn ack_turn(&mut self, lease: Pick, turn: &Turn) -> Verdict {
        let Some((token, at)) = Self::token(&self.turns, &self.work, lease) else { return Ok(()) };
        let taken = match at {
            Some(at) => self.turns.0[at].of.clone(),
            None => Taken { instance: INSTANCES[0].to_owned(), execution: 1 },
        };
        let mut decided = self.decide(&taken, turn).await;
        let last = self.last_event(&taken.instance, decided.execution).await;
        decided.spoil(&taken.instance, last, turn.fault);
        let ack = async |side: Side<'_>| {
            let fire_at = side.now_ms + TIMER.as_millis() as u64;
            let messages = decided.messages.iter().map(|(to, kind, data)| message(*kind, to, data, fire_at)).collect();
            let Decided { execution, events, work, cancelled, metadata, .. } = &decided;
            let (events, work, cancelled) = (events.clone(), work.clone(), cancelled.clone());
            let token = side.token(&token);
            side.store
                .ack_orchestration_item(token, *execution, events, work, messages, metadata.clone(), cancelled)
                .await
        };
        let acked = self.same("ack_orchestration_item", ack).await?;
        if let (Some(()), Some(at)) = (acked, at) {
            self.ended(at);
            self.starting.remove(&taken.instance);
            self.sent(decided).await;
        }
        Ok(())
    }

    async fn decide(&mut self, taken: &Taken, turn: &Turn) -> Decided {
        let instance = taken.instance.as_str();
        let exists = self.exists(instance).await;
        let execution = match turn.execution {
            Which::Next if exists => taken.execution + 1,
            Which::Earlier if exists => (taken.execution - 1).max(1),
            _ => taken.execution,
        };
        let last = self.last_event(instance, execution).await;
        let mut kinds = Vec::new();
        if !exists || turn.named && last == 0 {
            kinds.push(started("input", turn.cancel.len()));
        }
        // A start is always the first event.
        let first = last + 1 + u64::from(turn.gap && kinds.is_empty());
        let known = &self.activities;
        let picked = turn.cancel.iter().filter(|_| !known.is_empty()).map(|nth| known[nth % known.len()].clone());
        let (mut work, mut cancelled) = (Vec::new(), picked.collect::<Vec<_>>());
        for change in &turn.changes {
            let id = first + kinds.len() as u64;
            let data = self.fresh();
            kinds.push(match *change {
                Change::Raised => raised(data),
                Change::Schedule { route, dropped } => {
                    work.push(activity(instance, execution, id, &data, route));
                    cancelled.extend(dropped.then(|| (instance.to_owned(), execution, id)));
                    raised(data)
                }
                Change::Set { key } => {
                    EventKind::KeyValueSet { key: KEYS[key].to_owned(), value: data, last_updated_at_ms: id }
                }
                Change::Clear { key } => EventKind::KeyValueCleared { key: KEYS[key].to_owned() },
                Change::ClearAll => EventKind::KeyValuesCleared,
                Change::Custom { set } => EventKind::CustomStatusUpdated { status: set.then_some(data) },
            });
        }

        let named = !exists || turn.named;
        let parent = turn.parent.map(|parent| INSTANCES[parent]).filter(|parent| *parent < instance);
        let pin = turn.pin.filter(|_| turn.execution != Which::Earlier);
        let metadata = ExecutionMetadata {
            status: turn.status.map(str::to_owned),
            output: turn.status.map(|status| format!("{status} {instance}")),
            orchestration_name: named.then(|| NAME.to_owned()),
            orchestration_version: named.then(|| VERSION.to_owned()),
            parent_instance_id: parent.map(str::to_owned),
            pinned_duroxide_version: pin.map(|major| Version::new(major, 0, 0)),
        };
        let activity =
            |(instance, execution_id, activity_id)| ScheduledActivityIdentifier { instance, execution_id, activity_id };
        Decided {
            execution,
            events: numbered(instance, execution, first, kinds),
            work,
            messages: self.letters(instance, &turn.messages).await,
            cancelled: cancelled.into_iter().map(activity).collect(),
            metadata,
        }
    }

    /// Messages of a turn; as for those that are sent by themselves, a start comes first.
    async fn letters(&mut self, from: &str, wanted: &[(usize, Kind)]) -> Vec<(String, Kind, String)> {
        let mut letters: Vec<(String, Kind, String)> = Vec::new();
        for (to, kind) in wanted {
            let (to, kind) = (INSTANCES[*to], *kind);
            // Timers of one turn for one time have no order.
            let timers = letters.iter().filter(|(_, kind, _)| *kind == Kind::Timer).count();
            if kind == Kind::Activity || kind == Kind::Timer && timers > 0 {
                continue;
            }
            if to != from && !self.awaited(to).await && !letters.iter().any(|(other, ..)| other == to) {
                letters.push((to.to_owned(), Kind::Start, self.fresh()));
            }
            letters.push((to.to_owned(), kind, self.fresh()));
        }
        letters
    }

    /// Notes what an ack has sent.
    async fn sent(&mut self, decided: Decided) {
        self.activities.extend(decided.work.into_iter().map(|item| match item {
            WorkItem::ActivityExecute { instance, execution_id, id, .. } => (instance, execution_id, id),
            other => panic!("acked as work: {other:?}"),
        }));
        for (to, kind, _) in decided.messages {
            if kind == Kind::Timer {
                self.delayed.insert(to.clone());
            }
            if kind == Kind::Start && !self.exists(&to).await {
                self.starting.insert(to);
            }
        }
    }
}

impl Decided {
    /// Makes it a turn that must be refused; `last` is the last event before it.
    fn spoil(&mut self, instance: &str, last: u64, fault: Option<Fault>) {
        let alone = |id| numbered(instance, self.execution, id, vec![raised("spoilt".to_owned())]);
        match fault {
            None => {}
            // Without an event before it, it would be no clash.
            Some(Fault::Clash) if last == 0 => self.events = alone(0),
            Some(Fault::Clash) => self.events.insert(0, alone(last).remove(0)),
            Some(Fault::Twice) => self.events.extend(self.events.last().cloned()),
            Some(Fault::NoId) => self.events = alone(0),
            Some(Fault::WorkForInstance) => {
                self.messages.push((instance.to_owned(), Kind::Activity, "spoilt".to_owned()));
            }
            Some(Fault::MessageForWorker) => self.work.push(message(Kind::Raised, instance, "spoilt", 0)),
        }
    }
}
