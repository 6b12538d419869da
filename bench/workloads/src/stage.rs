//! A provider with duroxide's runtime on it, warmed up.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duroxide::RuntimeOptions;
use duroxide::runtime::Runtime;
use serde::{Deserialize, Serialize};

use crate::pump::pump;
use crate::signals::Signals;
use crate::timestamps::{Timestamps, nanos};
use crate::{Result, System, script};

/// The longest that an orchestration may take before it counts as lost: the timeout of duroxide's own stress test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The number of tasks of a runtime that claim work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispatchers {
    /// Those that run turns of orchestrations.
    pub orchestrations: usize,
    /// Those that run activities.
    pub workers: usize,
}

impl Dispatchers {
    /// As many of one kind as of the other.
    pub const fn same(count: usize) -> Dispatchers {
        Dispatchers { orchestrations: count, workers: count }
    }
}

/// The provider and the runtime of a workload.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) system: System,
    pub(crate) timestamps: Timestamps,
    signals: Signals,
    runtime: Option<Arc<Runtime>>,
    /// Part of every instance's name: an instance that exists already would complete at once.
    run: Arc<str>,
}

impl Stage {
    /// A stage without a runtime: another process has it.
    pub(crate) fn without_runtime(system: System) -> Stage {
        let run = format!("{}-{:x}", std::process::id(), nanos(SystemTime::now()));
        let (timestamps, signals) = (Timestamps::default(), Signals::default());
        Stage { system, timestamps, signals, runtime: None, run: run.into() }
    }

    /// A stage with a runtime: duroxide's defaults but for the number of dispatchers.
    pub(crate) async fn start(system: System, dispatchers: Dispatchers) -> Stage {
        let stage = Stage::without_runtime(system);
        let options = RuntimeOptions {
            orchestration_concurrency: dispatchers.orchestrations,
            worker_concurrency: dispatchers.workers,
            ..RuntimeOptions::default()
        };
        let (activities, orchestrations) =
            (script::activities(&stage.timestamps), script::orchestrations(&stage.timestamps, &stage.signals));
        let provider = Arc::clone(stage.system.provider());
        let runtime = Runtime::start_with_options(provider, activities, orchestrations, options).await;
        Stage { runtime: Some(runtime), ..stage }
    }

    /// Completes so many orchestrations at once, so that connections are open and statements prepared.
    pub(crate) async fn warm_up(&self, orchestrations: usize) -> Result<()> {
        let stage = self.clone();
        let one = move |number| {
            let stage = stage.clone();
            async move { stage.complete("warm-up", number, script::ONE, "").await }
        };
        pump(orchestrations, orchestrations, one).await.into_iter().try_for_each(|done| done.map(drop))
    }

    /// The name of an instance.
    pub(crate) fn instance(&self, kind: &str, number: usize) -> String {
        format!("{kind}-{}-{number}", self.run)
    }

    /// Starts an orchestration and waits for its output.
    pub(crate) async fn complete(&self, kind: &str, number: usize, orchestration: &str, input: &str) -> Result<String> {
        self.system.complete(&self.instance(kind, number), orchestration, input, PATIENCE).await
    }

    /// Starts an orchestration that signals its end in this process, waits for that signal, and reads its status once.
    /// Returns its output; `None` if its last turn has not committed yet, so that it has to be verified.
    pub(crate) async fn complete_by_signal(
        &self,
        kind: &str,
        number: usize,
        orchestration: &str,
        input: &str,
    ) -> Result<Option<String>> {
        let instance = self.instance(kind, number);
        let ended = self.signals.expect(&instance);
        self.system.complete_by_signal(&instance, orchestration, input, ended, PATIENCE).await
    }

    /// Waits until the status of such an orchestration is its end. Returns its output, and how often it was read.
    pub(crate) async fn verify(&self, kind: &str, number: usize) -> Result<(String, usize)> {
        self.system.verify(&self.instance(kind, number), PATIENCE).await
    }

    /// Ends the runtime.
    pub(crate) async fn end(self) {
        if let Some(runtime) = self.runtime {
            runtime.shutdown(None).await;
        }
    }
}
