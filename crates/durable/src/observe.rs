//! Metrics: durations, errors and retries under the names of duroxide's provider guide, through the `metrics` facade.
//!
//! No payload, URL or password appears here: operations are named by constants, errors by their kind.

use std::time::Instant;

use duroxide::providers::ProviderError;
pub use reveille_wake::Metric;

macro_rules! metrics {
    ($($id:ident = $name:literal, $kind:literal, $about:literal;)*) => {
        $(const $id: &str = $name;)*
        /// Every metric of this crate; the engine's own are in [`reveille_wake::METRICS`].
        pub const METRICS: &[Metric] = &[$(Metric { name: $name, kind: $kind, about: $about }),*];
    };
}

metrics! {
    FETCH = "provider.fetch_orchestration_item_duration_ms", "histogram", "duration of a fetch of a turn, including the wait";
    ACK = "provider.ack_orchestration_item_duration_ms", "histogram", "duration of an ack of a turn";
    DEQUEUE = "provider.dequeue_worker_duration_ms", "histogram", "duration of a fetch of an activity, including the wait";
    ACK_WORKER = "provider.ack_worker_duration_ms", "histogram", "duration of an ack of an activity";
    ENQUEUE = "provider.enqueue_orchestrator_duration_ms", "histogram", "duration of sending a message to an instance";
    ERRORS = "provider.infrastructure_errors", "counter", "failures, by operation (fetch, ack_orch, ack_worker, enqueue) and error_type (transaction_failed, lock_timeout, serialization_error, unknown)";
    RETRIES = "provider.ack_orchestration_retries", "counter", "acks of a turn that were sent again after a failed attempt";
    LOST = "provider.pipelined_acks_failed", "counter", "pipelined acks that failed, by operation (ack_orch, ack_worker): the work is repeated, unless it was cancelled";
}

/// An operation that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Fetch,
    AckOrch,
    Dequeue,
    AckWorker,
    Enqueue,
}

impl Operation {
    fn histogram(self) -> &'static str {
        match self {
            Operation::Fetch => FETCH,
            Operation::AckOrch => ACK,
            Operation::Dequeue => DEQUEUE,
            Operation::AckWorker => ACK_WORKER,
            Operation::Enqueue => ENQUEUE,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Operation::Fetch | Operation::Dequeue => "fetch",
            Operation::AckOrch => "ack_orch",
            Operation::AckWorker => "ack_worker",
            Operation::Enqueue => "enqueue",
        }
    }

    /// The method of duroxide's `Provider`.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Operation::Fetch => "fetch_orchestration_item",
            Operation::AckOrch => "ack_orchestration_item",
            Operation::Dequeue => "fetch_work_item",
            Operation::AckWorker => "ack_work_item",
            Operation::Enqueue => "enqueue_for_orchestrator",
        }
    }

    /// A permanent error that the database has not caused.
    pub(crate) fn reject(self, why: &str) -> Failure {
        Failure::own(ProviderError::permanent(self.method(), why))
    }

    /// Records the duration, and the error if the database caused it.
    pub(crate) fn record<T>(self, since: Instant, result: &Result<T, Failure>) {
        ::metrics::histogram!(self.histogram()).record(since.elapsed().as_secs_f64() * 1_000.0);
        if let Err(Failure { error_type: Some(error_type), error }) = result {
            ::metrics::counter!(ERRORS, "operation" => self.label(), "error_type" => *error_type).increment(1);
            tracing::error!(operation = self.label(), error_type, error = %error.message, "database error");
        }
    }
}

/// An error for the runtime, and whether the infrastructure caused it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ProviderError,
    /// `None`: the call was invalid, or came too late.
    error_type: Option<&'static str>,
}

impl Failure {
    /// The call was invalid, or came too late.
    pub(crate) fn own(error: ProviderError) -> Failure {
        Failure { error, error_type: None }
    }

    /// The database did not answer in time.
    pub(crate) fn late(error: ProviderError) -> Failure {
        Failure { error, error_type: Some("unknown") }
    }

    pub(crate) fn engine(operation: &'static str, error: &reveille_wake::Error) -> Failure {
        let source = match error {
            reveille_wake::Error::Unavailable { source, .. }
            | reveille_wake::Error::Refused { source, .. }
            | reveille_wake::Error::Unknown { source, .. } => Some(error_type(source)),
            reveille_wake::Error::Closed { .. } => None,
            _ => Some("unknown"),
        };
        Failure { error: crate::error::engine(operation, error), error_type: source }
    }
}

/// The kind of an error, as the provider guide names them.
fn error_type(error: &reveille_pg::Error) -> &'static str {
    match error {
        error if error.is_lock_timeout() => "lock_timeout",
        reveille_pg::Error::Transient { code, .. } if code.starts_with("40") => "serialization_error",
        reveille_pg::Error::Transient { .. }
        | reveille_pg::Error::Refused { .. }
        | reveille_pg::Error::Interrupted { .. } => "transaction_failed",
        _ => "unknown",
    }
}

/// Counts and logs a pipelined ack that failed.
pub(crate) fn lost_ack(operation: Operation, instance: &str, failure: &Failure) {
    ::metrics::counter!(LOST, "operation" => operation.label()).increment(1);
    let (operation, error) = (operation.method(), &failure.error.message);
    tracing::warn!(operation, instance_id = instance, %error, "a pipelined ack failed; its work will be repeated");
}

/// Counts acks that were sent again.
pub(crate) fn retried(acks: usize) {
    if acks > 0 {
        ::metrics::counter!(RETRIES).increment(acks as u64);
    }
}
