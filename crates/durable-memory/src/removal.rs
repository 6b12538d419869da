//! Forgetting: whole instances, or the past executions of one.

use std::collections::HashSet;
use std::sync::Arc;

use duroxide::providers::{DeleteInstanceResult, InstanceFilter, PruneOptions, PruneResult};

use crate::instance::{ENDED, Instance, RUNNING};
use crate::state::State;

/// Instances that one bulk call touches unless it says otherwise: what one transaction should do at most.
const BULK_LIMIT: u32 = 1_000;

impl State {
    /// Deletes all of `ids` or, with the reason, none.
    pub(crate) fn delete(&mut self, ids: &[String], force: bool) -> Result<DeleteInstanceResult, String> {
        let wanted: HashSet<&str> = ids.iter().map(String::as_str).collect();
        for id in ids {
            let running = |instance: &Instance| instance.current().is_some_and(|current| current.status == RUNNING);
            if !force && self.instances.get(id.as_str()).is_some_and(running) {
                return Err(format!("instance {id} is still running: cancel it first, or force the deletion"));
            }
            let left = self.children.get(id).into_iter().flatten().find(|child| !wanted.contains(&***child));
            if let Some(child) = left {
                return Err(format!("instance {id} has the child {child}, which would be left: delete the whole tree"));
            }
        }
        let mut result = DeleteInstanceResult::default();
        for id in wanted {
            self.forget(&id.into(), &mut result);
        }
        Ok(result)
    }

    fn forget(&mut self, id: &Arc<str>, result: &mut DeleteInstanceResult) {
        result.queue_messages_deleted += self.work.remove_instance(id) as u64;
        let Some(mut instance) = self.instances.remove(id) else { return };
        self.ready.leave(&mut instance.inbox);
        // A current lease ends here: its ack must not create the instance again.
        if let Some(lease) = &instance.inbox.lease {
            self.turns.remove(&lease.token);
        }
        if let Some(parent) = instance.profile.as_ref().and_then(|profile| profile.parent.as_ref())
            && let Some(children) = self.children.get_mut(parent)
        {
            children.remove(id);
            if children.is_empty() {
                self.children.remove(parent);
            }
        }
        result.instances_deleted += u64::from(instance.profile.is_some());
        result.executions_deleted += instance.executions.len() as u64;
        result.events_deleted += instance.events();
        result.queue_messages_deleted += instance.inbox.len() as u64;
    }

    /// Deletes the trees of ended roots that the filter matches, the oldest first.
    pub(crate) fn delete_matching(&mut self, filter: &InstanceFilter) -> DeleteInstanceResult {
        let roots = self.matching(filter, |instance| {
            let root = instance.profile.as_ref().is_some_and(|profile| profile.parent.is_none());
            root && instance.current().is_some_and(|current| ENDED.contains(&current.status.as_str()))
        });
        let mut result = DeleteInstanceResult::default();
        for root in roots {
            for id in self.tree(root) {
                self.forget(&id, &mut result);
            }
        }
        result
    }

    /// Deletes past executions of one instance; `None` if there is no such instance.
    pub(crate) fn prune(&mut self, id: &str, options: &PruneOptions) -> Option<PruneResult> {
        let instance = self.instances.get_mut(id)?;
        let current = instance.profile.as_ref()?.current;
        let kept: HashSet<u64> =
            instance.executions.keys().rev().take(options.keep_last.unwrap_or(0) as usize).copied().collect();
        let past = instance.executions.iter().filter(|(id, execution)| {
            **id != current
                && execution.status != RUNNING
                && !kept.contains(id)
                && options.completed_before.is_none_or(|millis| execution.completed_before(millis))
        });
        let mut result = PruneResult { instances_processed: 1, ..PruneResult::default() };
        for id in past.map(|(id, _)| *id).collect::<Vec<_>>() {
            instance.executions.remove(&id);
            result.executions_deleted += 1;
            result.events_deleted += instance.histories.remove(&id).map_or(0, |history| history.len() as u64);
        }
        Some(result)
    }

    /// Prunes every instance that the filter matches, the oldest first, running ones too.
    pub(crate) fn prune_matching(&mut self, filter: &InstanceFilter, options: &PruneOptions) -> PruneResult {
        let mut result = PruneResult::default();
        for id in self.matching(filter, |_| true) {
            let Some(pruned) = self.prune(&id, options) else { continue };
            result.instances_processed += pruned.instances_processed;
            result.executions_deleted += pruned.executions_deleted;
            result.events_deleted += pruned.events_deleted;
        }
        result
    }

    fn matching(&self, filter: &InstanceFilter, and: impl Fn(&Instance) -> bool) -> Vec<Arc<str>> {
        let wanted = filter.instance_ids.as_ref().map(|ids| ids.iter().map(String::as_str).collect::<HashSet<_>>());
        let matches = |id: &Arc<str>, instance: &Instance| {
            wanted.as_ref().is_none_or(|wanted| wanted.contains(&**id))
                && filter
                    .completed_before
                    .is_none_or(|millis| instance.current().is_some_and(|current| current.completed_before(millis)))
                && and(instance)
        };
        let mut ids = self.oldest_first();
        ids.retain(|id| matches(id, &self.instances[id]));
        ids.truncate(filter.limit.unwrap_or(BULK_LIMIT) as usize);
        ids
    }

    /// An instance and all below it.
    fn tree(&self, root: Arc<str>) -> Vec<Arc<str>> {
        let mut tree = vec![root];
        let mut next = 0;
        while let Some(id) = tree.get(next).cloned() {
            tree.extend(self.children.get(&*id).into_iter().flatten().cloned());
            next += 1;
        }
        tree
    }

    /// All instances that exist for clients.
    pub(crate) fn oldest_first(&self) -> Vec<Arc<str>> {
        let ranked = |(id, instance): (&Arc<str>, &Instance)| Some((instance.profile.as_ref()?.rank, Arc::clone(id)));
        let mut ids: Vec<_> = self.instances.iter().filter_map(ranked).collect();
        ids.sort_unstable_by_key(|(rank, _)| *rank);
        ids.into_iter().map(|(_, id)| id).collect()
    }
}
