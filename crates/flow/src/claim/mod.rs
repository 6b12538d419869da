//! Claiming steps for workers, with everything that their handlers need.

mod begun;
pub(crate) mod callable;
pub(crate) mod full_scan;
pub(crate) mod in_write;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod response_size;
mod routes;
pub(crate) mod token;
pub(crate) mod workers;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::{Database, Schema, Sql};
use reveille_wake::{Channel, Claim, PollRequest, PollResult, ScanBounds, Topic};
use serde_json::value::RawValue;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use tokio::time::Instant;

use crate::claim::begun::{BegunClaim, Source};
use crate::claim::full_scan::{FullScans, lately_found};
use crate::claim::release::Releases;
use crate::claim::response_size::{ClaimResponse, FoundSteps};
use crate::claim::token::Token;
use crate::error::{Error, Result};
use crate::events::Meter;
use crate::flow::Flow;
use crate::name::{self, of_namespace, of_step};
use crate::query::workers::WorkerFilter;

/// The most steps of one claim.
pub(crate) const WANT_MAX: usize = 1_000;
/// The most namespaces, and step names, of one worker.
pub(crate) const NAMES_MAX: usize = 1_000;
/// The most topics of one waiter: subscribing takes a lock per topic. A waiter with more subscribes to its namespaces.
const TOPICS_MAX: usize = 10_000;
/// Keys whose queues are remembered; beyond it all are forgotten, and make one full scan each.
const SOURCES_MAX: usize = 1_000;
/// The longest lease, and the shortest.
pub(crate) const LEASE_MAX: Duration = Duration::from_secs(86_400);
pub(crate) const LEASE_MIN: Duration = Duration::from_millis(100);

/// What a worker claims.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The worker's name, shown in the history.
    pub name: String,
    /// The namespaces to claim from.
    pub namespaces: Vec<String>,
    /// The names of the steps to claim; `None`: all.
    pub steps: Option<Vec<String>>,
    /// The lease: how long the worker holds a step without a heartbeat.
    pub lease: Duration,
}

/// A claimed step.
#[derive(Debug)]
pub struct ClaimedStep {
    /// Identifies the claim; reports and heartbeats must present it.
    pub token: Token,
    /// The task's namespace.
    pub namespace: String,
    /// The step's name.
    pub name: String,
    /// The name in the template, by which the step is claimed. The name of a part also has its number.
    pub(crate) definition: String,
    /// Whether the engine watches the end of its lease.
    guarded: bool,
    /// The callable of its handler.
    pub callable: String,
    /// The handler's settings.
    pub initialization: Box<RawValue>,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The most attempts of the step.
    pub max_attempts: u32,
    /// How long the worker holds the step without a heartbeat.
    pub lease: Duration,
    /// When the claim was sent: the lease began later.
    pub(crate) sent_at: Instant,
    /// The longest duration of this attempt.
    pub timeout: Option<Duration>,
    /// The task's context.
    pub context: Box<RawValue>,
    /// The task's correlation id.
    pub correlation_id: Option<String>,
    /// The input of a part of a batch.
    pub input: Option<Box<RawValue>>,
    /// The last checkpoint of an earlier attempt.
    pub checkpoint: Option<Box<RawValue>>,
    /// A JSON object: the results of all earlier steps, by name.
    pub results: Box<RawValue>,
}

impl Flow {
    /// Claims up to `want` steps. If there are none, waits for the first until the deadline; `None` does not wait. An
    /// empty answer means that there was none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid parameter; otherwise an error of the engine or the database.
    ///
    /// # Cancel safety
    /// Dropping the future releases the steps that were claimed for it; the attempt is not counted.
    pub async fn claim(
        &self,
        request: &ClaimRequest,
        want: usize,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        if !(1..=WANT_MAX).contains(&want) {
            return Err(Error::invalid("max_steps", format!("must be between 1 and {WANT_MAX}, got {want}")));
        }
        self.claim_except(request, Vec::new(), want, deadline).await
    }

    /// The same, except steps with these names.
    pub(crate) async fn claim_except(
        &self,
        request: &ClaimRequest,
        mut left_out: Vec<String>,
        want: usize,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        request.check()?;
        let mut steps = request.steps.as_deref().map(sorted);
        if let Some(steps) = &mut steps {
            steps.retain(|step| !left_out.contains(step));
            left_out.clear();
        }
        let key = Key { namespaces: sorted(&request.namespaces), steps, left_out: sorted(&left_out) };
        let args = Args { worker: request.name.clone(), lease: request.lease };
        let running = self.inner.claiming_workers.enter(&request.name, &key);
        let mut claimed = self.claim_by_mode(&key, want, &args, deadline).await?;
        drop(running);
        self.release_oversized(&mut claimed);
        // An orchestrator must be awake when these leases end.
        let last = claimed.iter().filter(|step| step.guarded).map(|step| step.lease).min();
        self.inner.wake.wake_up(
            &last.map(|lease| self.inner.leases_channel.wake_up().after(lease)).into_iter().collect::<Vec<_>>(),
        );
        Ok(claimed)
    }
}

impl ClaimRequest {
    /// Checks the parameters.
    pub(crate) fn check(&self) -> Result<()> {
        if self.namespaces.is_empty() {
            return Err(Error::invalid("namespaces", "must not be empty"));
        }
        name::check("worker", &self.name)?;
        let steps = self.steps.as_deref().unwrap_or_default();
        for (what, names) in [("namespaces", &self.namespaces[..]), ("steps", steps)] {
            if names.len() > NAMES_MAX {
                let reason = format!("must have at most {NAMES_MAX} elements, got {}", names.len());
                return Err(Error::invalid(what, reason));
            }
            names.iter().try_for_each(|each| name::check(what, each))?;
        }
        check_lease(self.lease)
    }
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    names
}

pub(crate) fn check_lease(lease: Duration) -> Result<()> {
    if (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        return Ok(());
    }
    Err(Error::invalid("lease_ms", format!("must be between {LEASE_MIN:?} and {LEASE_MAX:?}, got {lease:?}")))
}

/// What equal claims have in common. All names are sorted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) namespaces: Vec<String>,
    pub(crate) steps: Option<Vec<String>>,
    /// If `steps` is `None`: the names that are not claimed.
    pub(crate) left_out: Vec<String>,
}

impl Key {
    /// Whether it claims steps with this name.
    pub(crate) fn is_for(&self, namespace: &str, step: &str) -> bool {
        let has = |names: &[String], name: &str| names.binary_search_by(|other| other.as_str().cmp(name)).is_ok();
        let named = self.steps.as_ref().map_or_else(|| !has(&self.left_out, step), |steps| has(steps, step));
        named && has(&self.namespaces, namespace)
    }

    /// Whether it claims steps of this namespace and with this name; `None`: of any.
    pub(crate) fn matches(&self, filter: &WorkerFilter) -> bool {
        let mut namespaces = self.namespaces.iter();
        let within = filter.namespace.as_ref().is_none_or(|namespace| namespaces.any(|each| each == namespace));
        within && filter.step.as_ref().is_none_or(|step| self.namespaces.iter().any(|each| self.is_for(each, step)))
    }

    /// The names of its steps. `None`: all names, or more than [`TOPICS_MAX`].
    pub(crate) fn names(&self) -> Option<&[String]> {
        let few = |steps: &&Vec<String>| steps.len().saturating_mul(self.namespaces.len()) <= TOPICS_MAX;
        self.steps.as_ref().filter(few).map(Vec::as_slice)
    }

    /// The topic keys of its steps in one of its namespaces.
    pub(crate) fn keys_in(&self, namespace: &str) -> Vec<String> {
        match self.names() {
            None => vec![of_namespace(namespace)],
            Some(steps) => steps.iter().map(|step| of_step(namespace, step)).collect(),
        }
    }

    /// The topics of its steps. A wake-up for a step has the key of its namespace, too.
    pub(crate) fn topics(&self, channel: &Channel) -> Vec<Topic> {
        let keys = self.namespaces.iter().flat_map(|namespace| self.keys_in(namespace));
        keys.map(|key| channel.topic_of(&key)).collect()
    }
}

/// What equal claims differ in.
#[derive(Debug, Clone)]
pub(crate) struct Args {
    pub(crate) worker: String,
    pub(crate) lease: Duration,
}

/// Claims steps from the step table.
pub(crate) struct Claims {
    channel: Channel,
    meter: Arc<Meter>,
    /// By step queue or namespace queue.
    bounds: Arc<ScanBounds<i64>>,
    full_scans: FullScans,
    sources: Mutex<HashMap<Key, Source>>,
    releases: Arc<Releases>,
    claim: Sql,
    sweep: Sql,
}

impl Claims {
    pub(crate) fn new(
        db: Database,
        schema: &Schema,
        channel: Channel,
        releases: Arc<Releases>,
        meter: Arc<Meter>,
    ) -> Claims {
        let bounds = Arc::new(ScanBounds::new());
        Claims {
            channel,
            meter,
            full_scans: FullScans::new(db, schema, bounds.clone()),
            bounds,
            sources: Mutex::default(),
            releases,
            claim: schema.sql(reveille_pg::statement!("claim_steps")),
            sweep: schema.sql(reveille_pg::statement!("due_namespaces")),
        }
    }
}

impl Claim for Claims {
    type Key = Key;
    type Args = Args;
    type Item = ClaimedStep;

    fn describe(&self, key: &Key) -> String {
        let steps = key.steps.as_ref().map_or("all steps".to_owned(), |steps| format!("steps {}", steps.join(", ")));
        format!("{steps} of namespace {}", key.namespaces.join(", "))
    }

    fn topics(&self, key: &Key) -> Vec<Topic> {
        key.topics(&self.channel)
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
    ) -> reveille_pg::Result<PollResult<ClaimedStep>> {
        self.releases.release_unanswered(conn).await?;
        let begun = self.begin(&poll.key, false);
        let (fence, sent) = self.releases.sent();
        let rows = begun.bind(sqlx::query(&self.claim), poll, fence).fetch(&mut *conn);
        let response = ClaimResponse::read(rows, poll.waiters.len(), begun.began).await?;
        let (polled, oversized) = self.claimed(&poll.key, begun, response)?;
        if !oversized.is_empty() {
            self.releases.release(conn, &oversized).await?;
        }
        sent.answered();
        Ok(polled)
    }

    async fn give_back(&self, conn: &mut PgConnection, steps: &[ClaimedStep]) -> reveille_pg::Result<()> {
        self.releases.release(conn, steps).await
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[Key]) -> reveille_pg::Result<Vec<usize>> {
        let (mut indexes, mut namespaces, mut lasts, mut names, mut every) = (vec![], vec![], vec![], vec![], vec![]);
        let mut due_anyway = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            if key.steps.is_some() && key.names().is_none() {
                // A poll is cheaper than asking about each name.
                due_anyway.push(index);
                continue;
            }
            for namespace in &key.namespaces {
                names.extend(key.steps.as_ref().unwrap_or(&key.left_out).iter().map(String::as_str));
                indexes.push(index);
                namespaces.push(namespace.as_str());
                lasts.push(names.len() as i32);
                every.push(key.steps.is_none());
            }
        }
        let query = sqlx::query_scalar(&self.sweep).bind(namespaces).bind(lasts).bind(names).bind(every);
        let due: Vec<i32> = query.fetch_all(conn).await?;
        let mut due: Vec<usize> = due.into_iter().map(|row| indexes[row as usize - 1]).chain(due_anyway).collect();
        due.sort_unstable();
        due.dedup();
        Ok(due)
    }
}

impl Claims {
    /// Begins a claim for a key: `in_write` in the statement of a write batch, see
    /// [`WriteBatch::attach`](reveille_wake::WriteBatch::attach).
    fn begin(&self, key: &Key, in_write: bool) -> BegunClaim {
        let source = self.sources.lock().get(key).cloned().unwrap_or_default();
        BegunClaim::new(source, &self.bounds, &self.full_scans, in_write)
    }

    /// The result of a claim, and the steps that do not fit into it.
    fn claimed(
        &self,
        key: &Key,
        mut begun: BegunClaim,
        ClaimResponse { last, found }: ClaimResponse,
    ) -> reveille_pg::Result<(PollResult<ClaimedStep>, Vec<ClaimedStep>)> {
        let FoundSteps { fitting, oversized, .. } = found?;
        let next_due_ms: Option<f64> = last.try_get("next_due_ms")?;
        if fitting.is_empty() && next_due_ms.is_some_and(|ms| ms <= 0.0) {
            self.meter.conflicts.add(1);
        }
        if !fitting.is_empty() {
            begun.source.found_at = Some(begun.began);
        }
        let next_scan = self.end_scans(key, begun, &last)?.map(|after| after.as_secs_f64() * 1_000.0);
        let mut polled = PollResult::next_due_ms(next_due_ms.into_iter().chain(next_scan).reduce(f64::min));
        for (waiter, step) in fitting {
            let lease = step.lease;
            polled.give(waiter, step, Some(lease));
        }
        Ok((polled, oversized))
    }

    /// Ends the scans of a poll and remembers the queues of its key. Returns after how long one of them must be scanned
    /// again.
    fn end_scans(&self, key: &Key, begun: BegunClaim, row: &PgRow) -> reveille_pg::Result<Option<Duration>> {
        let queues: Vec<i64> = row.try_get::<Option<_>, _>("queues")?.unwrap_or_default();
        let reached: Vec<i64> = row.try_get("reached_us")?;
        let found: Vec<bool> = row.try_get("stocked")?;
        let now = Instant::now();
        let mut next_scan: Option<Duration> = None;
        let mut remembered: HashMap<i64, Instant> = begun.source.queues.iter().copied().collect();
        for ((queue, reached), found) in queues.iter().zip(reached).zip(found) {
            let after = self.bounds.end(queue, begun.scan(*queue, &self.bounds), Some(reached), None, now);
            next_scan = next_scan.into_iter().chain(after).min();
            if found {
                remembered.insert(*queue, now);
            }
        }
        let source = Source { queues: lately_found(remembered, now), found_at: begun.source.found_at };
        let mut sources = self.sources.lock();
        if sources.len() >= SOURCES_MAX && !sources.contains_key(key) {
            sources.clear();
        }
        sources.insert(key.clone(), source);
        Ok(next_scan)
    }
}

pub(crate) fn read(row: &PgRow, sent_at: Instant) -> reveille_pg::Result<ClaimedStep> {
    let json = |column: &str| {
        let text: Option<String> = row.try_get(column)?;
        text.map(RawValue::from_string).transpose().map_err(|error| sqlx::Error::Decode(error.into()))
    };
    let null = || RawValue::NULL.to_owned();
    let ms = |ms: i64| Duration::from_millis(ms.max(0) as u64);
    Ok(ClaimedStep {
        token: Token::of(row)?,
        namespace: row.try_get("namespace")?,
        name: row.try_get("step_name")?,
        definition: row.try_get("definition_name")?,
        guarded: row.try_get("guarded")?,
        callable: row.try_get("callable")?,
        initialization: json("initialization")?.unwrap_or_else(null),
        attempt: row.try_get::<i32, _>("attempt")? as u32,
        max_attempts: row.try_get::<i32, _>("max_attempts")? as u32,
        lease: ms(row.try_get("lease_ms")?),
        sent_at,
        timeout: row.try_get::<Option<i64>, _>("timeout_ms")?.map(ms),
        context: json("context")?.unwrap_or_else(null),
        correlation_id: row.try_get("correlation_id")?,
        input: json("input")?,
        checkpoint: json("checkpoint")?,
        results: json("results")?.unwrap_or_else(null),
    })
}
