//! An idle runtime. The parent process counts the statements that it sends.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::millis;
use crate::stage::Dispatchers;

/// A period without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idle {
    /// Its length.
    #[serde(rename = "period_ms", with = "millis")]
    pub period: Duration,
    /// Of the runtime.
    pub dispatchers: Dispatchers,
}

/// The measured length of the period.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IdleOutcome {
    /// In seconds.
    pub seconds: f64,
}

impl Idle {
    pub(crate) async fn measure(&self) -> IdleOutcome {
        let began = Instant::now();
        sleep(self.period).await;
        IdleOutcome { seconds: began.elapsed().as_secs_f64() }
    }
}
