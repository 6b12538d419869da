//! The workers: what each waits for at this server, and the steps that it holds, whichever server it claimed them from.

use std::collections::BTreeMap;

use serde::Serialize;
use sqlx::Row;
use time::OffsetDateTime;
use time::serde::rfc3339;
use uuid::Uuid;

use crate::error::Result;
use crate::flow::Flow;
use crate::query::task::part_name;

/// The most workers of a response.
const WORKERS_MAX: usize = 1_000;
/// The most steps that are read: those that are held, and those that wait for a retry.
const LEASES_MAX: i64 = 10_000;
/// The most held steps of a worker in a response; the others are counted.
const HELD_MAX: usize = 100;
/// The most names of a claim in a response; the others are counted.
const NAMES_MAX: usize = 100;

/// Selects workers. Fields that are not given match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerFilter {
    /// That claim from this namespace, or hold a step of it.
    pub namespace: Option<String>,
    /// That claim, or hold, a step with this name.
    pub step: Option<String>,
}

/// The workers of all servers that hold steps, and those that claim from this one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Workers {
    /// The workers, by name: at most a thousand.
    pub workers: Vec<Worker>,
    /// Whether there are more workers, or more held steps than could be read.
    pub more: bool,
}

/// A worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = WorkerView))]
pub struct Worker {
    /// Its name, as it gave it.
    pub worker: String,
    /// What it claims from this server: now, or within the last ten minutes.
    pub claims: Vec<WorkerClaim>,
    /// The steps that it holds: the first hundred.
    pub steps: Vec<HeldStep>,
    /// The number of steps that it holds.
    pub in_progress: u32,
}

/// What a worker claims.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct WorkerClaim {
    /// The namespaces: the first hundred.
    pub namespaces: Vec<String>,
    /// The names of the steps: the first hundred; none: all.
    pub steps: Option<Vec<String>>,
    /// Of `steps` being none: the names that it does not claim.
    pub except: Vec<String>,
    /// The number of claims that wait now.
    pub waiting: u32,
    /// How long ago the last of these claims began or ended, in milliseconds.
    pub last_ms: u64,
}

/// A step that a worker holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct HeldStep {
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// Its namespace.
    pub namespace: String,
    /// The name of the step.
    pub step: String,
    /// The number of the attempt.
    pub attempt: u32,
    /// When it was claimed.
    #[serde(with = "rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub claimed_at: OffsetDateTime,
    /// When the lease ends, unless it is extended.
    #[serde(with = "rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub lease_ends_at: OffsetDateTime,
}

impl Flow {
    /// The workers that hold steps, and those that claim from this process.
    ///
    /// # Errors
    /// A database error.
    pub async fn workers(&self, filter: &WorkerFilter) -> Result<Workers> {
        let mut workers: BTreeMap<String, Worker> = BTreeMap::new();
        for (name, claims) in self.inner.claiming_workers.all() {
            let within = |claim: &&crate::claim::workers::Claiming| claim.key.matches(filter);
            let claims: Vec<WorkerClaim> = claims.iter().filter(within).map(shown).collect();
            if !claims.is_empty() {
                workers.entry(name).or_default().claims = claims;
            }
        }
        let query = || {
            sqlx::query(&self.inner.sql.leases)
                .bind(filter.namespace.as_deref())
                .bind(filter.step.as_deref())
                .bind(LEASES_MAX)
                .persistent(false)
        };
        let mut more = false;
        for row in self.inner.db.ask("read leases", query).await? {
            if let Some(read) = row.try_get::<Option<i64>, _>("read")? {
                more = read == LEASES_MAX;
                continue;
            }
            let name: Option<String> = row.try_get("worker")?;
            let worker = workers.entry(name.unwrap_or_default()).or_default();
            worker.in_progress += 1;
            if worker.steps.len() < HELD_MAX {
                worker.steps.push(HeldStep {
                    task_uuid: row.try_get("task_id")?,
                    namespace: row.try_get("namespace")?,
                    step: part_name(row.try_get("step")?, row.try_get("part")?),
                    attempt: row.try_get::<i32, _>("attempt")?.max(0) as u32,
                    claimed_at: row.try_get("claimed_at")?,
                    lease_ends_at: row.try_get("lease_ends_at")?,
                });
            }
        }
        more |= workers.len() > WORKERS_MAX;
        let named = workers.into_iter().map(|(worker, rest)| Worker { worker, ..rest });
        Ok(Workers { workers: named.take(WORKERS_MAX).collect(), more })
    }
}

fn shown(claim: &crate::claim::workers::Claiming) -> WorkerClaim {
    let first = |names: &[String]| names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>();
    WorkerClaim {
        namespaces: first(&claim.key.namespaces),
        steps: claim.key.steps.as_deref().map(first),
        except: first(&claim.key.left_out),
        waiting: claim.waiting as u32,
        last_ms: claim.last.elapsed().as_millis() as u64,
    }
}
