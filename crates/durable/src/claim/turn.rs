//! Claims turns: instances with due messages.
//!
//! Waiters with the same lease time and the same duroxide versions share a poll. One statement leases as many instances
//! as there are waiters, each with all its due messages; one more loads the histories that are not cached.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{DispatcherCapabilityFilter, KvEntry, OrchestrationItem, WorkItem};
use duroxide::{Event, EventKind};
use reveille_pg::{Schema, Sql};
use reveille_wake::{
    AttachedPoll, Channel, Claim, PollRequest, PollResult, Scan, ScanBounds, SentClaims, Topic, UnansweredClaims,
};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::blocked::{Blocked, Since};
use super::lease::{LeasedItem, Leases};
use crate::read::{EventList, ExecutionKey, Head, HistoryCache};
use crate::text::unescape;
use crate::token::TurnToken;
use crate::write::{millis, read_work_item};

/// Instances per statement: with more, the first ones would wait for the last ones to be read.
const TURNS_MAX: usize = 100;
/// How long claims wait until leases of unanswered ones have been read.
const UNANSWERED_WITHIN: Duration = Duration::from_secs(2);
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
    load: Sql,
    keys: Sql,
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

    /// Loads what the claim does not return: histories and keys.
    async fn load(&self, conn: &mut PgConnection, leased: &[Leased]) -> reveille_pg::Result<Vec<Loaded>> {
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

/// A history, or why it cannot be decoded; and keys.
type Loaded = (Result<EventList, String>, HashMap<String, KvEntry>);

/// A row of the claim.
struct Leased {
    token: TurnToken,
    due_us: i64,
    attempt: i32,
    messages: Vec<String>,
    name: Option<String>,
    version: Option<String>,
    execution: i64,
    last: i64,
    /// An execution of the instance has ended, and may have left keys.
    had_executions: bool,
    /// `None`: there is no instance yet, so the history cannot be cached.
    head: Option<Head>,
}

impl Leased {
    fn of(row: &PgRow) -> reveille_pg::Result<Option<Leased>> {
        let Some(instance) = row.try_get::<Option<String>, _>("instance_id")? else { return Ok(None) };
        let fence: Uuid = row.try_get("lock_token")?;
        let execution: Option<i64> = row.try_get("execution_id")?;
        let last = row.try_get::<Option<i64>, _>("last_event_id")?.unwrap_or(0);
        let generation: Option<i64> = row.try_get("generation")?;
        Ok(Some(Leased {
            token: TurnToken { fence, instance },
            due_us: row.try_get("due_us")?,
            attempt: row.try_get("attempt")?,
            messages: row.try_get("messages")?,
            name: row.try_get("orchestration_name")?,
            version: row.try_get("orchestration_version")?,
            execution: execution.unwrap_or(1),
            last,
            had_executions: row.try_get::<Option<bool>, _>("had_executions")?.unwrap_or(false),
            head: generation.zip(execution).map(|(generation, execution)| Head { execution, generation, last }),
        }))
    }

    /// What an ack must know in order to be pipelined. Only first attempts are: a turn whose ack the database has refused
    /// is claimed again, and the next ack must tell the runtime, which then fails the orchestration.
    fn item(&self) -> Option<LeasedItem> {
        (self.attempt == 1).then_some(LeasedItem::Turn { execution: self.execution, last: self.last })
    }

    fn into_turn(self, history: Result<EventList, String>, kv: HashMap<String, KvEntry>) -> Turn {
        let messages: Vec<WorkItem> = self.messages.iter().filter_map(|text| self.message(text)).collect();
        let (history, history_error) = match history {
            Ok(history) => (Arc::unwrap_or_clone(history.events), None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let (name, version) = match self.name {
            Some(name) => (name, self.version),
            None => name_of_start(&history, &messages),
        };
        let item = OrchestrationItem {
            instance: unescape(self.token.instance.clone()),
            orchestration_name: unescape(name),
            execution_id: self.execution as u64,
            version: version.map_or_else(|| "unknown".to_owned(), unescape),
            history,
            messages,
            kv_snapshot: if history_error.is_some() { HashMap::new() } else { kv },
            history_error,
        };
        Turn { item, token: self.token, attempt: self.attempt as u32 }
    }

    /// A message that cannot be decoded is skipped and removed by the ack of the turn, so that it does not block its
    /// instance.
    fn message(&self, text: &str) -> Option<WorkItem> {
        let instance = unescape(self.token.instance.clone());
        read_work_item(text, &instance)
            .inspect_err(|error| {
                let column = error.column();
                tracing::error!(instance_id = %self.token.instance, column, "dropped a message that cannot be decoded");
            })
            .ok()
    }
}

/// Name and version of an orchestration that has no instance yet.
fn name_of_start(history: &[Event], messages: &[WorkItem]) -> (String, Option<String>) {
    let started = history.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { name, version, .. } => Some((name.clone(), Some(version.clone()))),
        _ => None,
    });
    let starting = || {
        messages.iter().find_map(|item| match item {
            WorkItem::StartOrchestration { orchestration, version, .. }
            | WorkItem::ContinueAsNew { orchestration, version, .. } => Some((orchestration.clone(), version.clone())),
            _ => None,
        })
    };
    started.or_else(starting).unwrap_or_else(|| ("unknown".to_owned(), None))
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

/// The rows that the claim returned.
pub(crate) struct ClaimRows {
    leased: Vec<Leased>,
    next_due_ms: Option<f64>,
    now_us: Option<i64>,
    /// A due message waits for the end of a lease.
    blocked: bool,
    scan: Scan,
}

impl ClaimRows {
    fn of(rows: &[PgRow], scan: Scan) -> reveille_pg::Result<ClaimRows> {
        let mut claimed = ClaimRows { leased: Vec::new(), next_due_ms: None, now_us: None, blocked: false, scan };
        for row in rows {
            match Leased::of(row)? {
                Some(one) => claimed.leased.push(one),
                None => {
                    (claimed.next_due_ms, claimed.now_us) = (row.try_get("next_due_ms")?, row.try_get("due_us")?);
                    claimed.blocked = row.try_get("blocked")?;
                }
            }
        }
        Ok(claimed)
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

    fn cached(&self, one: &Leased) -> EventList {
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

fn result(
    poll: &PollRequest<TurnKey, ()>,
    ClaimRows { leased, next_due_ms, .. }: ClaimRows,
    loaded: Vec<Loaded>,
    sweep: Option<Duration>,
) -> PollResult<Turn> {
    let turns = leased.into_iter().zip(loaded).map(|(leased, (history, kv))| leased.into_turn(history, kv)).collect();
    poll_result(next_due_ms, sweep).deal(poll, turns, Some(poll.key.lease))
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

/// The rows of a claim and the tokens that it was sent with. If the server has reported an error, it has leased nothing;
/// otherwise the next poll gives back what it may have leased.
pub(super) fn answered_unless_lost(
    claimed: sqlx::Result<Vec<PgRow>>,
    sent: SentClaims<Uuid>,
) -> reveille_pg::Result<(Vec<PgRow>, SentClaims<Uuid>)> {
    match claimed.map_err(reveille_pg::Error::from) {
        Ok(rows) => Ok((rows, sent)),
        Err(error) => {
            if !error.is_ambiguous() {
                sent.answered();
            }
            Err(error)
        }
    }
}

/// Reads what unanswered claims have leased. Every claim of the process waits for that: an error means that it takes too
/// long. Then the leases end by themselves.
pub(super) async fn within_reason<T>(read: impl Future<Output = T>) -> reveille_pg::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "unanswered claims could not be read in time");
    timeout(UNANSWERED_WITHIN, read).await.map_err(|elapsed| sqlx::Error::Io(late(elapsed)).into())
}

/// An empty result with the time of the next poll: when the next item is due, or the next sweep.
pub(crate) fn poll_result<I>(next_due_ms: Option<f64>, sweep: Option<Duration>) -> PollResult<I> {
    let sweep_ms = sweep.map(|sweep| sweep.as_secs_f64() * 1_000.0);
    PollResult::next_due_ms(next_due_ms.into_iter().chain(sweep_ms).reduce(f64::min))
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
