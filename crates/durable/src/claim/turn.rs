//! Claims turns: instances with due messages.
//!
//! Waiters with the same lease time and the same duroxide versions share a poll. One statement leases as many instances
//! as there are waiters, each with all its due messages; one more loads the histories that are not cached.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem};
use reveille_pg::{Schema, Sql};
use reveille_wake::{
    AttachedPoll, Channel, Claim, PollRequest, PollResult, Scan, ScanBounds, SentClaims, Topic, UnansweredClaims,
};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};
use tokio::time::Instant;
use uuid::Uuid;

use super::blocked::{Blocked, Since};
use super::lease::Leases;
use super::leased::{ClaimRows, Leased, result};
use super::unanswered::{answered_unless_lost, within_reason};
use crate::read::{EventList, HistoryCache};
use crate::token::TurnToken;
use crate::write::millis;

/// Instances per statement: with more, the first ones would wait for the last ones to be read.
const TURNS_MAX: usize = 100;
/// The range of minor and patch versions in a packed version.
const VERSION_STEP: u64 = 1_000_000;

/// Waiters with the same key share a poll.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TurnKey {
    pub(crate) lease: Duration,
    /// The first and last accepted duroxide version, packed; `None`: any.
    pub(crate) versions: Option<(i64, i64)>,
}

impl TurnKey {
    /// `None` for a filter that accepts nothing.
    pub(crate) fn new(lease: Duration, filter: Option<&DispatcherCapabilityFilter>) -> Option<TurnKey> {
        let Some(filter) = filter else { return Some(TurnKey { lease, versions: None }) };
        // The filter has a list of ranges; by the contract only the first counts.
        let range = filter.supported_duroxide_versions.first()?;
        Some(TurnKey { lease, versions: Some((packed_version(&range.min), packed_version(&range.max))) })
    }
}

/// A version as one number, in the order of versions.
pub(crate) fn packed_version(version: &semver::Version) -> i64 {
    let part = |part: u64| part.min(VERSION_STEP - 1);
    (part(version.major) * VERSION_STEP * VERSION_STEP + part(version.minor) * VERSION_STEP + part(version.patch))
        as i64
}

/// A leased instance.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) item: OrchestrationItem,
    pub(crate) token: TurnToken,
    pub(crate) attempt: u32,
}

/// The claim of turns.
pub(crate) struct TurnClaim {
    pub(crate) channel: Channel,
    pub(crate) bounds: Arc<ScanBounds<TurnKey>>,
    pub(crate) histories: Arc<HistoryCache>,
    pub(crate) leases: Arc<Leases>,
    blocked: Arc<Blocked>,
    unanswered: UnansweredClaims<Uuid>,
    claim: Sql,
    unanswered_instances: Sql,
    pub(super) load: Sql,
    pub(super) keys: Sql,
    give_back: Sql,
    sweep: Sql,
}

impl TurnClaim {
    pub(crate) fn new(
        schema: &Schema,
        channel: Channel,
        histories: Arc<HistoryCache>,
        leases: Arc<Leases>,
        blocked: Arc<Blocked>,
    ) -> TurnClaim {
        TurnClaim {
            channel,
            blocked,
            bounds: Arc::new(ScanBounds::new()),
            histories,
            leases,
            unanswered: UnansweredClaims::new(),
            claim: schema.sql(reveille_pg::statement!("claim_instances")),
            unanswered_instances: schema.sql(reveille_pg::statement!("unanswered_instances")),
            load: schema.sql(reveille_pg::statement!("load_history")),
            keys: schema.sql(reveille_pg::statement!("load_keys")),
            give_back: schema.sql(reveille_pg::statement!("give_back_instances")),
            sweep: schema.sql(reveille_pg::statement!("sweep_instances")),
        }
    }
}

impl Claim for TurnClaim {
    type Key = TurnKey;
    type Args = ();
    type Item = Turn;

    fn topics(&self, _: &TurnKey) -> Vec<Topic> {
        vec![self.channel.topic()]
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<TurnKey, ()>,
    ) -> reveille_pg::Result<PollResult<Turn>> {
        self.release_unanswered(conn).await?;
        let (claimed, sent) = self.claim(conn, poll).await?;
        let result = self.loaded(conn, poll, claimed).await?;
        sent.answered();
        Ok(result)
    }

    async fn give_back(&self, conn: &mut PgConnection, turns: &[Turn]) -> reveille_pg::Result<()> {
        let tokens: Vec<&TurnToken> = turns.iter().map(|turn| &turn.token).collect();
        self.release(conn, &tokens).await
    }

    fn given_back(&self) {
        self.bounds.forget();
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[TurnKey]) -> reveille_pg::Result<Vec<usize>> {
        let any: bool = sqlx::query_scalar(&self.sweep).fetch_one(conn).await?;
        Ok(if any { (0..keys.len()).collect() } else { Vec::new() })
    }

    fn fits(&self, _: &Turn, _: &()) -> bool {
        true
    }
}

/// A claim of turns that the statement of a write batch makes.
pub(crate) struct TurnsInWrite {
    since: Since,
    scan: Scan,
}

impl TurnClaim {
    /// Sends the claim. If it found only leased instances and a turn ended meanwhile, sends it once more.
    async fn claim(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<TurnKey, ()>,
    ) -> reveille_pg::Result<(ClaimRows, SentClaims<Uuid>)> {
        let key = &poll.key;
        let mut is_second = false;
        loop {
            let (since, scan) = (self.blocked.poll_begins(), self.bounds.begin(key, Instant::now()));
            let sent = self.tokens(poll);
            let claimed = bind(sqlx::query(&self.claim), poll, &sent, scan).fetch_all(&mut *conn).await;
            let (rows, sent) = answered_unless_lost(claimed, sent)?;
            let mut claimed = ClaimRows::of(&rows, scan)?;
            let turn_ended = claimed.blocked && self.blocked.message_waits(since);
            if turn_ended && !is_second && claimed.leased.is_empty() {
                sent.answered();
                is_second = true;
                continue;
            }
            if turn_ended {
                // Turns end faster than this can poll: the engine polls again soon.
                claimed.next_due_ms = Some(0.0);
            }
            return Ok((claimed, sent));
        }
    }

    /// A token for each turn that a poll may lease.
    fn tokens(&self, poll: &PollRequest<TurnKey, ()>) -> SentClaims<Uuid> {
        self.unanswered.sent((0..poll.wanted().min(TURNS_MAX)).map(|_| Uuid::new_v4()))
    }

    /// Releases the turns of claims whose answer was lost.
    async fn release_unanswered(&self, conn: &mut PgConnection) -> reveille_pg::Result<()> {
        let lost = self.unanswered.take();
        if !lost.names().is_empty() {
            let leases = sqlx::query_as(&self.unanswered_instances).bind(lost.names()).fetch_all(&mut *conn);
            let leases: Vec<(String, Uuid)> = match within_reason(leases).await {
                Ok(leases) => leases?,
                Err(late) => {
                    lost.answered();
                    return Err(late);
                }
            };
            let tokens: Vec<TurnToken> =
                leases.into_iter().map(|(instance, fence)| TurnToken { fence, instance }).collect();
            if !tokens.is_empty() {
                self.release(conn, &tokens.iter().collect::<Vec<_>>()).await?;
            }
            lost.answered();
        }
        Ok(())
    }

    /// Binds the claim to the statement of a write batch.
    pub(crate) fn bind_in_write<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
        poll: &AttachedPoll<TurnClaim>,
    ) -> (Query<'q, Postgres, PgArguments>, TurnsInWrite) {
        let scan = self.bounds.begin_in_write(&poll.request().key, Instant::now());
        let sent = self.tokens(poll.request());
        let query = bind(query, poll.request(), &sent, scan);
        poll.keep_sent(sent);
        (query, TurnsInWrite { since: self.blocked.poll_begins(), scan })
    }

    /// Reads what the statement of a write batch has claimed.
    pub(crate) fn read_in_write(
        &self,
        TurnsInWrite { since, scan }: TurnsInWrite,
        rows: &[PgRow],
    ) -> reveille_pg::Result<ClaimRows> {
        let mut claimed = ClaimRows::of(rows, scan)?;
        if claimed.blocked && self.blocked.message_waits(since) {
            claimed.next_due_ms = Some(0.0);
        }
        Ok(claimed)
    }

    /// Its result, after the effects of the batch: the events of its turns are cached then. Needs a session only for
    /// what is not cached.
    pub(crate) async fn claimed_in_write(
        poll: AttachedPoll<TurnClaim>,
        claimed: ClaimRows,
    ) -> reveille_pg::Result<PollResult<Turn>> {
        let (claim, request) = (poll.claim(), poll.request());
        if claim.needs_no_load(&claimed.leased) {
            let cached = claimed.leased.iter().map(|one| (Ok(claim.cached(one)), HashMap::new())).collect();
            let sweep = claim.granted(request, &claimed);
            return Ok(result(request, claimed, cached, sweep));
        }
        let mut session = poll.session().await?;
        let result = claim.loaded(&mut session, request, claimed).await?;
        session.finish().await?;
        Ok(result)
    }

    pub(super) fn cached(&self, one: &Leased) -> EventList {
        one.head.and_then(|head| self.histories.get(&one.token.instance, head)).unwrap_or_default()
    }

    fn needs_no_load(&self, leased: &[Leased]) -> bool {
        leased.iter().all(|one| !one.had_executions && self.cached(one).last >= one.last)
    }

    /// The result of a claim: with what it did not return.
    async fn loaded(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<TurnKey, ()>,
        claimed: ClaimRows,
    ) -> reveille_pg::Result<PollResult<Turn>> {
        let sweep = self.granted(poll, &claimed);
        match self.load(&mut *conn, &claimed.leased).await {
            Ok(loaded) => Ok(result(poll, claimed, loaded, sweep)),
            Err(error) => {
                // Release the instances: otherwise they would stay leased for the whole lease time.
                let tokens: Vec<&TurnToken> = claimed.leased.iter().map(|one| &one.token).collect();
                let _ = self.release(conn, &tokens).await;
                Err(error)
            }
        }
    }

    /// Remembers the leases, and ends the scan. Returns when the group must poll again.
    fn granted(&self, poll: &PollRequest<TurnKey, ()>, claimed: &ClaimRows) -> Option<Duration> {
        let ClaimRows { leased, now_us, scan, .. } = claimed;
        for one in leased {
            self.leases.granted(one.token.fence, poll.key.lease, scan.since(), one.item());
        }
        let oldest = leased.iter().map(|one| one.due_us).min();
        self.bounds.end(&poll.key, *scan, oldest, *now_us, Instant::now())
    }

    async fn release(&self, conn: &mut PgConnection, tokens: &[&TurnToken]) -> reveille_pg::Result<()> {
        let instances: Vec<&str> = tokens.iter().map(|token| token.instance.as_str()).collect();
        let fences: Vec<Uuid> = tokens.iter().map(|token| token.fence).collect();
        sqlx::query(&self.give_back).bind(instances).bind(fences).execute(conn).await?;
        self.bounds.forget();
        Ok(())
    }
}

fn bind<'q>(
    query: Query<'q, Postgres, PgArguments>,
    poll: &PollRequest<TurnKey, ()>,
    tokens: &SentClaims<Uuid>,
    scan: Scan,
) -> Query<'q, Postgres, PgArguments> {
    query
        .bind(tokens.names().to_vec())
        .bind(millis(poll.key.lease))
        .bind(poll.key.versions.map(|(min, _)| min))
        .bind(poll.key.versions.map(|(_, max)| max))
        .bind(scan.bound_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use semver::Version;

    /// Packed versions compare like versions, and a part that is too large does not overflow into the next.
    #[test]
    fn packed_versions_keep_their_order() {
        let versions = [(0, 0, 0), (0, 1, 32), (0, 2, 0), (1, 0, 0), (1, 999_999, 5), (2, 0, 0)];
        let packed: Vec<i64> = versions.iter().map(|(a, b, c)| packed_version(&Version::new(*a, *b, *c))).collect();
        assert!(packed.is_sorted_by(|a, b| a < b), "{packed:?}");
        assert!(packed_version(&Version::new(1, u64::MAX, 0)) < packed_version(&Version::new(2, 0, 0)));
        assert!(packed_version(&Version::new(u64::MAX, u64::MAX, u64::MAX)) > 0);
    }
}
