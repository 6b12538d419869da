//! Queries and removals, and the comparison of everything that ends a sequence.

use std::collections::BTreeMap;

use duroxide::providers::{InstanceFilter, PruneOptions};

use super::answers::{deleted, depths, execution, instance, metrics, pruned, sorted, stats};
use super::pair::{AGE, PASS_LONG, Pair, Side, Verdict};
use super::step::{INSTANCES, KEYS, Query, Remove, Tags, Versions};

/// More turns and activities than a sequence can leave behind.
const DRAIN_MAX: usize = 1_000;

impl Pair<'_> {
    pub(super) async fn query(&self, query: Query) -> Verdict {
        match query {
            Query::Instance { of } => self.query_instance(INSTANCES[of]).await,
            Query::Execution { of, execution } => self.query_execution(INSTANCES[of], execution).await,
            Query::Custom { of, seen } => {
                let custom = async |side: Side<'_>| side.store.get_custom_status(INSTANCES[of], seen).await;
                self.same("get_custom_status", custom).await.map(drop)
            }
            Query::Key { of, key } => {
                let value = async |side: Side<'_>| side.store.get_kv_value(INSTANCES[of], KEYS[key]).await;
                self.same("get_kv_value", value).await.map(drop)
            }
            Query::Lists => self.query_lists().await,
            Query::Figures => self.query_statistics().await,
        }
    }

    pub(super) async fn query_instance(&self, of: &str) -> Verdict {
        self.same("read", async |side| side.store.read(of).await).await?;
        self.same("read_history", async |side| side.store.read_history(of).await).await?;
        self.same("get_instance_info", async |side| side.store.get_instance_info(of).await.map(instance)).await?;
        self.same("get_instance_stats", async |side| side.store.get_instance_stats(of).await.map(stats)).await?;
        self.same("get_kv_all_values", async |side| {
            side.store.get_kv_all_values(of).await.map(|values| values.into_iter().collect::<BTreeMap<_, _>>())
        })
        .await?;
        self.same("list_executions", async |side| side.store.list_executions(of).await).await?;
        self.same("latest_execution_id", async |side| side.store.latest_execution_id(of).await).await?;
        self.same("get_parent_id", async |side| side.store.get_parent_id(of).await).await?;
        self.same("list_children", async |side| side.store.list_children(of).await.map(sorted)).await?;
        let tree = async |side: Side<'_>| side.store.get_instance_tree(of).await.map(|tree| sorted(tree.all_ids));
        self.same("get_instance_tree", tree).await.map(drop)
    }

    pub(super) async fn query_execution(&self, of: &str, id: u64) -> Verdict {
        self.same("read_with_execution", async |side| side.store.read_with_execution(of, id).await).await?;
        self.same("read_history_with_execution_id", async |side| {
            side.store.read_history_with_execution_id(of, id).await
        })
        .await?;
        let info = async |side: Side<'_>| side.store.get_execution_info(of, id).await.map(execution);
        self.same("get_execution_info", info).await.map(drop)
    }

    async fn query_lists(&self) -> Verdict {
        self.same("list_instances", async |side| side.store.list_instances().await).await?;
        for status in ["Running", "Completed", "Failed", "ContinuedAsNew", "Nonsense"] {
            let list = async |side: Side<'_>| side.store.list_instances_by_status(status).await;
            self.same("list_instances_by_status", list).await?;
        }
        Ok(())
    }

    pub(super) async fn query_statistics(&self) -> Verdict {
        self.same("get_system_metrics", async |side| side.store.get_system_metrics().await.map(metrics)).await?;
        self.same("get_queue_depths", async |side| side.store.get_queue_depths().await.map(depths)).await.map(drop)
    }

    pub(super) async fn remove(&mut self, remove: &Remove) -> Verdict {
        let names = |of: &[usize]| of.iter().map(|of| INSTANCES[*of].to_owned()).collect::<Vec<_>>();
        let before = |side: &Side<'_>, old: bool| old.then(|| side.now_ms - AGE.as_millis() as u64);
        match remove {
            Remove::Exactly { of, force } => {
                let ids = names(of);
                let gone = async |side: Side<'_>| side.store.delete_instances_atomic(&ids, *force).await.map(deleted);
                if self.same("delete_instances_atomic", gone).await?.is_some() {
                    self.starting.retain(|id| !ids.contains(id));
                }
            }
            Remove::Tree { of, force } => {
                let of = INSTANCES[*of];
                let gone = async |side: Side<'_>| side.store.delete_instance(of, *force).await.map(deleted);
                if self.same("delete_instance", gone).await?.is_some() {
                    self.starting.remove(of);
                }
            }
            Remove::Ended { of, old } => {
                let ids = of.as_deref().map(names);
                let gone = async |side: Side<'_>| {
                    let filter = InstanceFilter {
                        instance_ids: ids.clone(),
                        completed_before: before(&side, *old),
                        limit: None,
                    };
                    side.store.delete_instance_bulk(filter).await.map(deleted)
                };
                self.same("delete_instance_bulk", gone).await?;
            }
            Remove::Executions { of, keep, old } => {
                let gone = async |side: Side<'_>| {
                    let options = PruneOptions { keep_last: *keep, completed_before: before(&side, *old) };
                    side.store.prune_executions(INSTANCES[*of], options).await.map(pruned)
                };
                self.same("prune_executions", gone).await?;
            }
            Remove::AllExecutions { keep, old, limit } => {
                let gone = async |side: Side<'_>| {
                    let options = PruneOptions { keep_last: *keep, completed_before: before(&side, *old) };
                    let filter = InstanceFilter { limit: *limit, ..InstanceFilter::default() };
                    side.store.prune_executions_bulk(filter, options).await.map(pruned)
                };
                self.same("prune_executions_bulk", gone).await?;
            }
        }
        Ok(())
    }

    /// Compares all that can be seen, then lets all leases end and takes whatever is left in the queues, one by one.
    pub(super) async fn look_at_everything(&mut self) -> Verdict {
        for of in INSTANCES {
            self.query_instance(of).await?;
            for execution in 1..6 {
                self.query_execution(of, execution).await?;
            }
            self.same("get_custom_status", async |side| side.store.get_custom_status(of, 0).await).await?;
        }
        self.query_lists().await?;
        self.query_statistics().await?;
        self.pass(PASS_LONG * 2).await;
        self.lapse().await;
        let mut left = 0;
        while self.fetch_turn(Versions::Any, true).await? {
            left += 1;
        }
        while self.fetch_work(Some(0), Tags::Any, true).await? {
            left += 1;
        }
        assert!(left < DRAIN_MAX, "a lease is not given twice");
        self.query_statistics().await
    }
}
