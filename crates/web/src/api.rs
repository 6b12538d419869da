//! The face of a product: its routes, and the document that describes them.
//!
//! A server shows several products under one address, and one document for all of them: what they bring is put together before anything is answered.

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header;
use axum::middleware::{from_fn_with_state, map_request_with_state};
use axum::routing::get;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};
use tower_http::decompression::RequestDecompressionLayer;
use tower_http::map_request_body::MapRequestBodyLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::intake::Compressed;
use crate::memory::Memory;
use crate::openapi::complete;
use crate::unread::{self, Unread};

/// An answer smaller than this is sent as it is: it fits into a few packets, and compressing it would only make it later.
const COMPRESSED_FROM: u16 = 4 * 1024;

/// Routes, and what describes them.
#[derive(Clone)]
pub struct Api {
    router: Router,
    document: OpenApi,
}

impl Api {
    /// Routes of a product. What is the same for all routes is added to what they say of themselves.
    pub fn new(routes: OpenApiRouter) -> Api {
        let (router, document) = routes.split_for_parts();
        Api { router, document: complete(document) }
    }

    /// A description of what somebody else answers. Its title is that of everything that is shown beside it.
    pub fn document_only(document: OpenApi) -> Api {
        Api { router: Router::new(), document }
    }

    /// With another beside it.
    ///
    /// # Panics
    /// When a route is already taken, or a form of one name is described in two ways; both are mistakes in the program.
    pub fn merge(self, other: Api) -> Api {
        agree(&self.document, &other.document);
        Api { router: self.router.merge(other.router), document: self.document.merge_from(other.document) }
    }

    /// Everything that was put together, and the document at `/openapi.json`. Bodies of up to so many bytes are taken, counted after they were decompressed: a body is held in memory
    /// while it is worked on. Answers are compressed if a client wants that, but for streams of events, which would wait in the compressor.
    pub fn into_router(self, max_body_bytes: usize) -> Router {
        // It does not change while a process runs.
        let document = self.document.to_json().expect("a document is JSON");
        let document = ([(header::CONTENT_TYPE, "application/json")], document);
        let when = SizeAbove::new(COMPRESSED_FROM).and(NotForContentType::SSE);
        let compressed = CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(when);
        // What it cannot decompress is refused where the body is read, in the form of all refusals.
        let decompressed = RequestDecompressionLayer::new().pass_through_unaccepted(true);
        self.router
            .route("/openapi.json", get(async move || document))
            // Counted before it is compressed: the compressor holds what it has not read.
            .layer(from_fn_with_state(Unread::default(), unread::bound))
            .layer(compressed)
            .layer((decompressed, MapRequestBodyLayer::new(Body::new)))
            .layer(DefaultBodyLimit::max(max_body_bytes))
            .layer(map_request_with_state(Memory::new(max_body_bytes), prepared))
    }
}

/// Gives each request what reading its body needs.
async fn prepared(State(memory): State<Memory>, mut request: Request) -> Request {
    request.extensions_mut().insert(memory);
    if request.headers().contains_key(header::CONTENT_ENCODING) {
        request.extensions_mut().insert(Compressed);
    }
    request
}

/// Of two forms of one name only one would be in the document.
fn agree(one: &OpenApi, other: &OpenApi) {
    let (Some(one), Some(other)) = (&one.components, &other.components) else { return };
    for (name, schema) in &one.schemas {
        assert!(other.schemas.get(name).is_none_or(|its| its == schema), "{name} is described in two ways");
    }
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("paths", &self.document.paths.paths.keys()).finish_non_exhaustive()
    }
}
