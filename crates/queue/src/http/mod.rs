//! The queue over HTTP: the wire contract that clients in several languages speak.
//!
//! Clients in the field cannot be changed, and a form they do not expect costs their users work: an answer of the wrong shape is a lost consumer, a refusal with the wrong status
//! is sent again for ever. So the forms are written down once, here, and described by a document that is generated from the same code (`GET /openapi.json`).
//!
//! A request either means something or is refused with 4xx and a sentence that names the part that does not; then nothing was changed. 5xx means "not done, or harmless when sent
//! again". No text of the database reaches a client (`refusal.rs`). A waiting pop is a future: whoever closes the connection drops it, and what was leased for it goes back.

mod ack;
mod admin;
mod body;
mod field;
mod form;
mod lease;
mod moment;
mod openapi;
mod path;
mod pop;
mod push;
mod query;
mod refusal;
mod transaction;

use std::fmt;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;
use tower_http::decompression::RequestDecompressionLayer;
use tower_http::map_request_body::MapRequestBodyLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::queues::Queues;

/// Where everything but the document is.
const BASE: &str = "/api/v1";
/// An answer smaller than this is sent as it is: it fits into a few packets, and compressing it would only make it later.
const COMPRESSED_FROM: u16 = 4 * 1024;

/// What can be set.
#[derive(Clone)]
pub struct Options {
    /// The largest body of a request, after it was decompressed. A body is held in memory while its messages are stored.
    pub max_body_bytes: usize,
    /// What else there is on the server that these routes become part of: the document describes it, too.
    pub beside: utoipa::openapi::OpenApi,
}

impl Default for Options {
    fn default() -> Self {
        Options { max_body_bytes: 10 << 20, beside: utoipa::openapi::OpenApi::default() }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("max_body_bytes", &self.max_body_bytes).finish_non_exhaustive()
    }
}

/// The routes of the queue, under `/api/v1`, and the document that describes them, `/openapi.json`.
pub fn routes(queues: Queues, options: &Options) -> Router {
    let api = OpenApiRouter::new()
        .routes(routes!(push::push))
        .routes(routes!(pop::pop_queue))
        .routes(routes!(pop::pop_partition))
        .routes(routes!(pop::pop_space))
        // Some clients do not escape the slashes of a name.
        .route("/pop/queue/{queue}/{*rest}", get(pop::pop_slashed))
        .routes(routes!(ack::ack))
        .routes(routes!(ack::ack_batch))
        .routes(routes!(lease::extend))
        .routes(routes!(transaction::transaction))
        .merge(admin::routes());
    let (router, document) = OpenApiRouter::with_openapi(openapi::head()).nest(BASE, api).split_for_parts();
    let document = openapi::rendered(&openapi::completed(document).merge_from(options.beside.clone()));
    let compressed =
        CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(SizeAbove::new(COMPRESSED_FROM));
    // What it cannot decompress is refused where the body is read, in the form of all refusals.
    let decompressed = RequestDecompressionLayer::new().pass_through_unaccepted(true);
    router
        .route("/openapi.json", get(async move || document))
        .with_state(queues)
        .layer(compressed)
        .layer((decompressed, MapRequestBodyLayer::new(Body::new)))
        .layer(DefaultBodyLimit::max(options.max_body_bytes))
}
