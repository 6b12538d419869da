//! Loads what a claim of turns does not return: histories that are not cached, and keys.

use std::collections::HashMap;

use duroxide::providers::KvEntry;
use sqlx::{PgConnection, Row};

use super::leased::{Leased, Loaded};
use super::turn::TurnClaim;
use crate::read::{EventList, ExecutionKey};
use crate::text::unescape;

impl TurnClaim {
    /// Loads what the claim does not return: histories and keys.
    pub(super) async fn load(&self, conn: &mut PgConnection, leased: &[Leased]) -> reveille_pg::Result<Vec<Loaded>> {
        let histories = self.histories(&mut *conn, leased).await?;
        let mut keys = self.keys(conn, leased).await?;
        Ok(histories
            .into_iter()
            .enumerate()
            .map(|(at, history)| (history, keys.remove(&at).unwrap_or_default()))
            .collect())
    }

    /// The keys that ended executions have left, by position.
    async fn keys(
        &self,
        conn: &mut PgConnection,
        leased: &[Leased],
    ) -> reveille_pg::Result<HashMap<usize, HashMap<String, KvEntry>>> {
        let mut keys: HashMap<usize, HashMap<String, KvEntry>> = HashMap::new();
        let later: Vec<usize> = (0..leased.len()).filter(|at| leased[*at].had_executions).collect();
        if later.is_empty() {
            return Ok(keys);
        }
        let instances: Vec<&str> = later.iter().map(|at| leased[*at].token.instance.as_str()).collect();
        for row in sqlx::query(&self.keys).bind(instances).fetch_all(conn).await? {
            let position: i32 = row.try_get(0)?;
            let (value, at): (String, i64) = (row.try_get(2)?, row.try_get(3)?);
            let entry = KvEntry { value: unescape(value), last_updated_at_ms: at as u64 };
            keys.entry(later[position as usize]).or_default().insert(unescape(row.try_get(1)?), entry);
        }
        Ok(keys)
    }

    /// The histories of the claimed instances: from the cache as far as possible. An error concerns one instance only.
    async fn histories(
        &self,
        conn: &mut PgConnection,
        leased: &[Leased],
    ) -> reveille_pg::Result<Vec<Result<EventList, String>>> {
        let cached: Vec<EventList> = leased.iter().map(|one| self.cached(one)).collect();
        let missing: Vec<usize> = (0..leased.len()).filter(|at| leased[*at].last > cached[*at].last).collect();
        let mut loaded: HashMap<usize, Vec<String>> = HashMap::new();
        if !missing.is_empty() {
            let instances: Vec<&str> = missing.iter().map(|at| leased[*at].token.instance.as_str()).collect();
            let executions: Vec<i64> = missing.iter().map(|at| leased[*at].execution).collect();
            let after: Vec<i64> = missing.iter().map(|at| cached[*at].last).collect();
            let query = sqlx::query(&self.load).bind(instances).bind(executions).bind(after);
            for row in query.fetch_all(conn).await? {
                let position: i32 = row.try_get(0)?;
                loaded.entry(missing[position as usize]).or_default().push(row.try_get(1)?);
            }
        }
        let complete = leased.iter().zip(cached).enumerate().map(|(at, (one, cached))| {
            let rows = loaded.remove(&at).unwrap_or_default();
            let instance = unescape(one.token.instance.clone());
            let of = ExecutionKey { instance: &instance, execution: one.execution as u64 };
            let history = cached.extend(&of, &rows)?;
            if let Some(head) = one.head.filter(|_| !rows.is_empty()) {
                self.histories.put(&one.token.instance, head, &history);
            }
            Ok(history)
        });
        Ok(complete.collect())
    }
}
