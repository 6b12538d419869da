//! How an orchestrator is doing.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde::Serialize;

use super::breaker::BreakerState;
use super::coordination::Coordination;

/// For how long an event that was late counts: whoever hears of none since then cannot know.
const LATELY: Duration = Duration::from_secs(60);

/// How an orchestrator is doing. Nothing here is a reason to send work elsewhere: what is not heard is polled for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = OrchestrationHealth))]
pub struct HealthStatus {
    /// Whether all is well.
    pub healthy: bool,
    /// What was looked at.
    pub checks: Vec<HealthCheck>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct HealthCheck {
    /// `listeners_connected`, `coordinators_healthy`, `fallback_poller` or `notification_lag`.
    pub name: &'static str,
    /// Whether it is well.
    pub healthy: bool,
    /// In a sentence.
    pub detail: String,
}

impl HealthStatus {
    /// All is well if everything is.
    pub fn aggregate(checks: Vec<HealthCheck>) -> HealthStatus {
        HealthStatus { healthy: checks.iter().all(|check| check.healthy), checks }
    }
}

fn check(name: &'static str, trouble: Option<String>, well: impl FnOnce() -> String) -> HealthCheck {
    HealthCheck { name, healthy: trouble.is_none(), detail: trouble.unwrap_or_else(well) }
}

impl Coordination {
    pub(super) fn check(&self) -> HealthStatus {
        HealthStatus::aggregate(vec![self.listeners(), self.coordination(), self.fallback(), self.lag()])
    }

    fn listeners(&self) -> HealthCheck {
        let trouble = if !self.flow.health().is_connected() {
            Some("work of other processes is not heard of; it is polled for".to_owned())
        } else if self.listens.load(Relaxed) && !self.hears.load(Relaxed) {
            Some("what is announced is not heard".to_owned())
        } else {
            None
        };
        check("listeners_connected", trouble, || "notifications are heard".to_owned())
    }

    fn coordination(&self) -> HealthCheck {
        let all = self.coordinators();
        let mut ill: Vec<&str> = all.iter().filter(|one| !one.is_healthy()).map(|one| one.namespace()).collect();
        ill.sort_unstable();
        let trouble =
            (!ill.is_empty()).then(|| format!("of {} coordinators these do not run: {}", all.len(), ill.join(", ")));
        check("coordinators_healthy", trouble, || format!("{} coordinators run", all.len()))
    }

    fn fallback(&self) -> HealthCheck {
        let trouble = match self.breaker_state() {
            _ if !self.config.fallback_enabled => None,
            BreakerState::Closed => None,
            BreakerState::Open | BreakerState::HalfOpen => Some("it pauses, because the database failed it".to_owned()),
        };
        check("fallback_poller", trouble, || {
            if self.config.fallback_enabled {
                format!("it has found {} tasks", self.flow.inner.meter.snapshot().fallback_found)
            } else {
                "it is switched off".to_owned()
            }
        })
    }

    fn lag(&self) -> HealthCheck {
        let lag = self.flow.inner.meter.lag_within(LATELY);
        let late = lag.filter(|lag| *lag > self.config.notification_lag_max);
        let trouble = late.map(|lag| format!("the last event took {lag:?}"));
        check("notification_lag", trouble, || {
            lag.map_or("there was no event lately".to_owned(), |lag| format!("the last event took {lag:?}"))
        })
    }
}
