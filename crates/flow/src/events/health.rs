//! The health of an orchestrator.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde::Serialize;

use super::breaker::BreakerState;
use super::coordination::Coordination;

/// How long a late event affects the health: without newer events nothing better is known.
const LATELY: Duration = Duration::from_secs(60);

/// The health of an orchestrator. An unhealthy one still works: it polls for what notifications do not deliver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = OrchestrationHealth))]
pub struct HealthStatus {
    /// Whether all checks are healthy.
    pub healthy: bool,
    /// The checks.
    pub checks: Vec<HealthCheck>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct HealthCheck {
    /// `listeners_connected`, `coordinators_healthy`, `fallback_poller` or `notification_lag`.
    pub name: &'static str,
    /// Whether it is healthy.
    pub healthy: bool,
    /// The details, in a sentence.
    pub detail: String,
}

impl HealthStatus {
    /// Healthy if all checks are.
    pub fn aggregate(checks: Vec<HealthCheck>) -> HealthStatus {
        HealthStatus { healthy: checks.iter().all(|check| check.healthy), checks }
    }
}

fn check(name: &'static str, problem: Option<String>, healthy: impl FnOnce() -> String) -> HealthCheck {
    HealthCheck { name, healthy: problem.is_none(), detail: problem.unwrap_or_else(healthy) }
}

impl Coordination {
    pub(super) fn check(&self) -> HealthStatus {
        HealthStatus::aggregate(vec![self.listeners(), self.coordination(), self.fallback(), self.lag()])
    }

    fn listeners(&self) -> HealthCheck {
        let problem = if !self.flow.health().is_connected() {
            Some("the listener is disconnected; polling for work of other processes".to_owned())
        } else if self.listens.load(Relaxed) && !self.connected.load(Relaxed) {
            Some("the listener for announcements is disconnected".to_owned())
        } else {
            None
        };
        check("listeners_connected", problem, || "connected".to_owned())
    }

    fn coordination(&self) -> HealthCheck {
        let all = self.coordinators();
        let mut stopped: Vec<&str> = all.iter().filter(|one| !one.is_healthy()).map(|one| one.namespace()).collect();
        stopped.sort_unstable();
        let problem = (!stopped.is_empty())
            .then(|| format!("of {} coordinators these are not running: {}", all.len(), stopped.join(", ")));
        check("coordinators_healthy", problem, || format!("{} coordinators are running", all.len()))
    }

    fn fallback(&self) -> HealthCheck {
        let problem = match self.breaker_state() {
            _ if !self.config.fallback_enabled => None,
            BreakerState::Closed => None,
            BreakerState::Open | BreakerState::HalfOpen => Some("paused after database errors".to_owned()),
        };
        check("fallback_poller", problem, || {
            if self.config.fallback_enabled {
                format!("has found {} tasks", self.flow.inner.meter.snapshot().fallback_found)
            } else {
                "switched off".to_owned()
            }
        })
    }

    fn lag(&self) -> HealthCheck {
        let lag = self.flow.inner.meter.lag_within(LATELY);
        let late = lag.filter(|lag| *lag > self.config.notification_lag_max);
        let problem = late.map(|lag| format!("the last event took {lag:?}"));
        check("notification_lag", problem, || {
            lag.map_or("no recent event".to_owned(), |lag| format!("the last event took {lag:?}"))
        })
    }
}
