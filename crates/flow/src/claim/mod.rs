//! Claiming steps for workers, with all that their handlers need.

pub(crate) mod below_bounds;
pub(crate) mod callable;
pub(crate) mod limit;
pub(crate) mod renew;
mod routes;
pub(crate) mod token;
pub(crate) mod unanswered;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reveille_pg::{Database, Schema, Sql};
use reveille_wake::{Channel, Claim, PollRequest, PollResult, Scan, ScanBounds, Topic};
use serde_json::value::RawValue;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use tokio::time::Instant;

use crate::claim::below_bounds::{BelowBounds, lately_found};
use crate::claim::token::Token;
use crate::claim::unanswered::{UnansweredClaims, locked};
use crate::error::{Error, Result};
use crate::event_driven::Meter;
use crate::flow::Flow;
use crate::name::{self, of_namespace, of_step};
use crate::response_size::ClaimResponse;

/// Steps that one claim takes at most.
pub(crate) const WANT_MAX: usize = 1_000;
/// Namespaces, and names of steps, that one worker names at most.
pub(crate) const NAMES_MAX: usize = 1_000;
/// Topics that one waiter is rung by at most: they are subscribed to one by one while everybody waits. Beyond it, whatever happens in its namespaces rings it.
const TOPICS_MAX: usize = 10_000;
/// Sources whose lanes are remembered; beyond it all are forgotten, and read from their beginning once.
const SOURCES_MAX: usize = 1_000;
/// For how long after a step was found it is not waited for a look that reads everything: see [`ScanBounds::defer_full_scans`].
const BUSY: Duration = Duration::from_millis(500);
/// The longest lease, and the shortest.
pub(crate) const LEASE_MAX: Duration = Duration::from_secs(86_400);
pub(crate) const LEASE_MIN: Duration = Duration::from_millis(100);

/// Somebody who claims steps.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// What it is called, in the history of what it does.
    pub name: String,
    /// In which namespaces.
    pub namespaces: Vec<String>,
    /// On the steps of these names; `None`: on all.
    pub steps: Option<Vec<String>>,
    /// For how long it has a step before it has to say that it is still alive.
    pub lease: Duration,
}

/// A step to work on.
#[derive(Debug)]
pub struct ClaimedStep {
    /// What to present when it has ended.
    pub token: Token,
    /// The task's namespace.
    pub namespace: String,
    /// The step's name.
    pub name: String,
    /// By which it is claimed: a part of a batch has a number beside it.
    pub(crate) definition: String,
    /// The engine watches its lease.
    guarded: bool,
    /// What carries it out.
    pub callable: String,
    /// What that is told beside its inputs.
    pub initialization: Box<RawValue>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// How many there are.
    pub max_attempts: u32,
    /// For how long it is this worker's, unless it says that it is still alive.
    pub lease: Duration,
    /// How long this attempt may take.
    pub timeout: Option<Duration>,
    /// What the task works on.
    pub context: Box<RawValue>,
    /// What the task belongs to.
    pub correlation_id: Option<String>,
    /// What this part of a batch is to work on.
    pub input: Option<Box<RawValue>>,
    /// How far an attempt before it has come.
    pub checkpoint: Option<Box<RawValue>>,
    /// A JSON object: the results of all steps before it, by their names.
    pub results: Box<RawValue>,
}

impl Flow {
    /// Claims up to `want` steps, and waits for the first until the deadline; `None` does not wait. An empty answer means that there was none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a worker that cannot be meant; else the engine's or the database's.
    ///
    /// # Cancel safety
    /// Dropping the future gives back whatever was claimed for it, uncharged.
    pub async fn claim(
        &self,
        claimant: &ClaimRequest,
        want: usize,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        if !(1..=WANT_MAX).contains(&want) {
            return Err(Error::invalid("max_steps", format!("it is {want}; it must be between 1 and {WANT_MAX}")));
        }
        self.claim_except(claimant, Vec::new(), want, deadline).await
    }

    /// The same, but no steps of the names that are left out.
    pub(crate) async fn claim_except(
        &self,
        claimant: &ClaimRequest,
        mut left_out: Vec<String>,
        want: usize,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        claimant.check()?;
        let mut steps = claimant.steps.as_deref().map(sorted);
        if let Some(steps) = &mut steps {
            steps.retain(|step| !left_out.contains(step));
            left_out.clear();
        }
        let key = Key { namespaces: sorted(&claimant.namespaces), steps, left_out: sorted(&left_out) };
        let args = Args { worker: claimant.name.clone(), lease: claimant.lease };
        let mut claimed = self.claim_by_mode(&key, want, &args, deadline).await?;
        self.give_back_too_much(&mut claimed);
        // The engine has to be there when these end.
        let last = claimed.iter().filter(|step| step.guarded).map(|step| step.lease).min();
        self.inner.wake.wake_up(
            &last.map(|lease| self.inner.leases_channel.wake_up().after(lease)).into_iter().collect::<Vec<_>>(),
        );
        Ok(claimed)
    }
}

impl ClaimRequest {
    /// Refuses what cannot be meant.
    pub(crate) fn check(&self) -> Result<()> {
        if self.namespaces.is_empty() {
            return Err(Error::invalid("namespaces", "there is none"));
        }
        name::check("worker", &self.name)?;
        let steps = self.steps.as_deref().unwrap_or_default();
        for (what, names) in [("namespaces", &self.namespaces[..]), ("steps", steps)] {
            if names.len() > NAMES_MAX {
                return Err(Error::invalid(what, format!("there are {}; the limit is {NAMES_MAX}", names.len())));
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
    Err(Error::invalid("lease_ms", format!("it is {lease:?}; it must be between {LEASE_MIN:?} and {LEASE_MAX:?}")))
}

/// What makes workers equal. All names are in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) namespaces: Vec<String>,
    pub(crate) steps: Option<Vec<String>>,
    /// Of those who work on all: the names on which they do not.
    pub(crate) left_out: Vec<String>,
}

impl Key {
    /// Whether it is for the steps of a name.
    pub(crate) fn is_for(&self, namespace: &str, step: &str) -> bool {
        let has = |names: &[String], name: &str| names.binary_search_by(|other| other.as_str().cmp(name)).is_ok();
        let named = self.steps.as_ref().map_or_else(|| !has(&self.left_out, step), |steps| has(steps, step));
        named && has(&self.namespaces, namespace)
    }

    /// The names of its steps, unless it is for all of them, or there are too many to tell them apart.
    pub(crate) fn names(&self) -> Option<&[String]> {
        let few = |steps: &&Vec<String>| steps.len().saturating_mul(self.namespaces.len()) <= TOPICS_MAX;
        self.steps.as_ref().filter(few).map(Vec::as_slice)
    }

    /// What rings who waits for its steps in one of its namespaces.
    pub(crate) fn keys_in(&self, namespace: &str) -> Vec<String> {
        match self.names() {
            None => vec![of_namespace(namespace)],
            Some(steps) => steps.iter().map(|step| of_step(namespace, step)).collect(),
        }
    }

    /// What rings who waits for it. Whoever rings for a step rings for its namespace, too.
    pub(crate) fn topics(&self, channel: &Channel) -> Vec<Topic> {
        let keys = self.namespaces.iter().flat_map(|namespace| self.keys_in(namespace));
        keys.map(|key| channel.topic_of(&key)).collect()
    }
}

/// In what they differ.
#[derive(Debug, Clone)]
pub(crate) struct Args {
    pub(crate) worker: String,
    pub(crate) lease: Duration,
}

/// How steps are claimed.
pub(crate) struct Claims {
    channel: Channel,
    meter: Arc<Meter>,
    /// Of queues and lanes.
    bounds: Arc<ScanBounds<i64>>,
    behind: BelowBounds,
    sources: Mutex<HashMap<Key, Source>>,
    /// Claims whose answers were not heard.
    lost: Arc<UnansweredClaims>,
    claim: Sql,
    sweep: Sql,
}

/// What is known of a source.
#[derive(Clone, Default)]
struct Source {
    /// Queues or lanes, in order, and when something was last found in each.
    lanes: Vec<(i64, Instant)>,
    /// When the last step was found.
    found_at: Option<Instant>,
}

impl Claims {
    pub(crate) fn new(
        db: Database,
        schema: &Schema,
        channel: Channel,
        lost: Arc<UnansweredClaims>,
        meter: Arc<Meter>,
    ) -> Claims {
        let bounds = Arc::new(ScanBounds::new());
        Claims {
            channel,
            meter,
            behind: BelowBounds::new(db, schema, bounds.clone()),
            bounds,
            sources: Mutex::default(),
            lost,
            claim: schema.sql(reveille_pg::statement!("claim_steps")),
            sweep: schema.sql(reveille_pg::statement!("due_namespaces")),
        }
    }
}

impl Claim for Claims {
    type Key = Key;
    type Args = Args;
    type Item = ClaimedStep;

    fn topics(&self, key: &Key) -> Vec<Topic> {
        key.topics(&self.channel)
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
    ) -> reveille_pg::Result<PollResult<ClaimedStep>> {
        self.lost.give_back_unanswered(conn).await?;
        let waiters = &poll.waiters;
        let Source { lanes: remembered, found_at } = locked(&self.sources).get(&poll.key).cloned().unwrap_or_default();
        let known: Vec<i64> = remembered.iter().map(|(lane, _)| *lane).collect();
        let began = Instant::now();
        let busy_until = found_at.map_or(began, |found_at| began.max(found_at + BUSY));
        if busy_until > began {
            self.behind.read(&known, began);
        }
        let begin = |lane: &i64| (*lane, self.bounds.begin_busy(lane, busy_until, began));
        let readings: HashMap<i64, Scan> = known.iter().map(begin).collect();
        let unheard = self.lost.unheard();
        let query = sqlx::query(&self.claim)
            .bind(&poll.key.namespaces)
            .bind(&poll.key.steps)
            .bind(&poll.key.left_out)
            .bind(&known)
            .bind(known.iter().map(|lane| readings[lane].bound_us).collect::<Vec<_>>())
            .bind(unheard.fence)
            .bind(waiters.iter().map(|waiter| waiter.want as i32).collect::<Vec<_>>())
            .bind(waiters.iter().map(|waiter| waiter.args.worker.as_str()).collect::<Vec<_>>())
            .bind(waiters.iter().map(|waiter| waiter.args.lease.as_millis() as i64).collect::<Vec<_>>());
        let ClaimResponse { last, steps, too_much } =
            ClaimResponse::read(query.fetch(&mut *conn), waiters.len()).await?;
        let last = &last;
        let next_due_ms: Option<f64> = last.try_get("next_due_ms")?;
        if steps.is_empty() && next_due_ms.is_some_and(|ms| ms <= 0.0) {
            self.meter.conflicts.add(1);
        }
        let found_at = if steps.is_empty() { found_at } else { Some(began) };
        let again = self
            .reached(&poll.key, Source { lanes: remembered, found_at }, &readings, began, last)?
            .map(|again| again.as_secs_f64() * 1_000.0);
        let mut polled = PollResult::next_due_ms(next_due_ms.into_iter().chain(again).reduce(f64::min));
        if !too_much.is_empty() {
            self.lost.give_back(conn, &too_much).await?;
        }
        for (waiter, step) in steps {
            let lease = step.lease;
            polled.give(waiter, step, Some(lease));
        }
        unheard.heard();
        Ok(polled)
    }

    async fn give_back(&self, conn: &mut PgConnection, steps: &[ClaimedStep]) -> reveille_pg::Result<()> {
        self.lost.give_back(conn, steps).await
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[Key]) -> reveille_pg::Result<Vec<usize>> {
        let (mut places, mut namespaces, mut lasts, mut names, mut every) = (vec![], vec![], vec![], vec![], vec![]);
        let mut due_anyway = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            if key.steps.is_some() && key.names().is_none() {
                // A look is cheaper than to ask about each of them.
                due_anyway.push(place);
                continue;
            }
            for namespace in &key.namespaces {
                names.extend(key.steps.as_ref().unwrap_or(&key.left_out).iter().map(String::as_str));
                places.push(place);
                namespaces.push(namespace.as_str());
                lasts.push(names.len() as i32);
                every.push(key.steps.is_none());
            }
        }
        let query = sqlx::query_scalar(&self.sweep).bind(namespaces).bind(lasts).bind(names).bind(every);
        let due: Vec<i32> = query.fetch_all(conn).await?;
        let mut due: Vec<usize> = due.into_iter().map(|row| places[row as usize - 1]).chain(due_anyway).collect();
        due.sort_unstable();
        due.dedup();
        Ok(due)
    }
}

impl Claims {
    /// Remembers the lanes of a source and up to where each has been read. Answers when one of them must be read from further before at the latest.
    fn reached(
        &self,
        key: &Key,
        before: Source,
        readings: &HashMap<i64, Scan>,
        began: Instant,
        row: &PgRow,
    ) -> reveille_pg::Result<Option<Duration>> {
        let lanes: Vec<i64> = row.try_get::<Option<_>, _>("queues")?.unwrap_or_default();
        let reached: Vec<i64> = row.try_get("reached_us")?;
        let found: Vec<bool> = row.try_get("stocked")?;
        let now = Instant::now();
        let mut again: Option<Duration> = None;
        let mut remembered: HashMap<i64, Instant> = before.lanes.into_iter().collect();
        for ((lane, reached), found) in lanes.iter().zip(reached).zip(found) {
            // A lane that was not known has been read from its beginning.
            let reading = readings.get(lane).copied().unwrap_or_else(|| self.bounds.begin_unbounded(began));
            let sweep = self.bounds.end(lane, reading, Some(reached), None, now);
            again = again.into_iter().chain(sweep).min();
            if found {
                remembered.insert(*lane, now);
            }
        }
        let source = Source { lanes: lately_found(remembered, now), found_at: before.found_at };
        let mut known = locked(&self.sources);
        if known.len() >= SOURCES_MAX && !known.contains_key(key) {
            known.clear();
        }
        known.insert(key.clone(), source);
        Ok(again)
    }
}

pub(crate) fn read(row: &PgRow) -> reveille_pg::Result<ClaimedStep> {
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
        timeout: row.try_get::<Option<i64>, _>("timeout_ms")?.map(ms),
        context: json("context")?.unwrap_or_else(null),
        correlation_id: row.try_get("correlation_id")?,
        input: json("input")?,
        checkpoint: json("checkpoint")?,
        results: json("results")?.unwrap_or_else(null),
    })
}
