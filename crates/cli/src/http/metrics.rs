//! What Prometheus sees.
//!
//! Every crate records through the `metrics` facade; this is the one place that collects and renders. Samples of
//! histograms pile up until they are folded into their buckets. A scrape does that; because a process that nobody scrapes
//! must not grow for ever, so does [`Metrics::fold`], now and then.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    extract::State,
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use wake::Metric;

use super::exposition::{self, MetricFamily};
use super::health::Health;
use crate::{error::Error, products};

/// The Prometheus text format's own media type.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How often samples are folded without a scrape: at a hundred thousand samples a second, under ten megabytes wait.
const FOLD_EVERY: Duration = Duration::from_secs(10);

/// Upper bounds of the buckets of everything in seconds: from a wake within the process to a long poll that ran out.
const SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Upper bounds of the buckets of everything counted in pieces, such as the members of a flight.
const PIECES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// The server's own metrics.
pub const METRICS: &[Metric] = &[
    Metric { name: BUILD_INFO, kind: "gauge", about: "always 1; the labels say what runs" },
    Metric { name: READY, kind: "gauge", about: "1 if the process was ready when it was last asked, else 0" },
    Metric { name: REQUESTS, kind: "counter", about: "HTTP requests answered, by method, route and status" },
    Metric {
        name: REQUEST_SECONDS,
        kind: "histogram",
        about: "from a request's headers to its answer, by method and route",
    },
    Metric { name: CONNECTIONS, kind: "gauge", about: "HTTP connections open now" },
    Metric {
        name: SHORTAGES,
        kind: "counter",
        about: "statements that failed because the database server is short of something, by reason",
    },
    Metric { name: CLOSED_IDLE, kind: "counter", about: "idle HTTP connections closed because a limit was reached" },
    Metric { name: REFUSED, kind: "counter", about: "HTTP connections refused because a limit was reached" },
];

const BUILD_INFO: &str = "reveille_build_info";
const READY: &str = "reveille_ready";
const REQUESTS: &str = "reveille_http_requests_total";
const REQUEST_SECONDS: &str = "reveille_http_request_seconds";
const CONNECTIONS: &str = "reveille_http_connections";
const SHORTAGES: &str = "reveille_database_shortages_total";
const CLOSED_IDLE: &str = "reveille_http_connections_closed_idle_total";
const REFUSED: &str = "reveille_http_connections_refused_total";

/// A source of figures that every scrape asks.
pub trait ScrapeSource: Send + Sync {
    /// The figures as they are now. Every scrape waits for it.
    fn collect(&self) -> Pin<Box<dyn Future<Output = Vec<MetricFamily>> + Send + '_>>;
}

/// The collected metrics. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle, Arc<OnceLock<Arc<dyn ScrapeSource>>>);

impl Metrics {
    /// Starts collecting what this process records. Once per process.
    pub fn install() -> Result<Self, Error> {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)
            .and_then(|builder| builder.set_buckets(PIECES))
            .map_err(|source| Error::Metrics { source: Box::new(source) })?
            .build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| Error::Metrics { source: "already collecting".into() })?;
        for Metric { name, kind, about } in METRICS.iter().chain(products::metrics()) {
            match *kind {
                "counter" => describe_counter!(*name, *about),
                "gauge" => describe_gauge!(*name, *about),
                _ => describe_histogram!(*name, *about),
            }
        }
        gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        Ok(Self(handle, Arc::default()))
    }

    /// Folds samples into their buckets for ever, so that memory stays bounded when nobody scrapes.
    ///
    /// # Cancel safety
    /// Dropping it only ends the folding.
    pub async fn fold(self) {
        loop {
            tokio::time::sleep(FOLD_EVERY).await;
            self.0.run_upkeep();
        }
    }

    /// Asks `observer` with every scrape from now on, once the server has started. The first one counts.
    pub fn collect(&self, observer: Arc<dyn ScrapeSource>) {
        let _ = self.1.set(observer);
    }

    async fn render(&self, started: bool) -> String {
        let figures = match self.1.get().filter(|_| started) {
            Some(observer) => exposition::write(&observer.collect().await),
            None => String::new(),
        };
        self.0.run_upkeep();
        self.0.render() + &figures
    }
}

/// `GET /metrics`, `GET /metrics/prometheus`.
pub(super) async fn scrape(State((metrics, health)): State<(Metrics, Arc<Health>)>) -> Response {
    gauge!(READY).set(if health.last_known_ready() { 1.0 } else { 0.0 });
    for (shortage, count) in pg::shortage::counts() {
        counter!(SHORTAGES, "reason" => shortage.name()).absolute(count);
    }
    // Before the start there may be no tables to read figures from.
    let text = metrics.render(health.not_started().is_none()).await;
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}

/// A request was answered.
pub(super) fn request(method: &'static str, route: String, status: StatusCode, took: Duration) {
    counter!(REQUESTS, "method" => method, "route" => route.clone(), "status" => status.as_str().to_owned())
        .increment(1);
    histogram!(REQUEST_SECONDS, "method" => method, "route" => route).record(took);
}

/// The number of open connections changed by `by`.
pub(super) fn connections(by: f64) {
    gauge!(CONNECTIONS).increment(by);
}

/// An idle connection was closed for another.
pub(super) fn connection_closed() {
    counter!(CLOSED_IDLE).increment(1);
}

/// There was no place for a connection.
pub(super) fn connection_refused() {
    counter!(REFUSED).increment(1);
}

/// A label for a method: one a client made up is `other`, so that labels stay few.
pub(super) fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
