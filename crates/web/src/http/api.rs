//! The API of a product: its routes, and the OpenAPI document that describes them.
//!
//! A server offers several products at one address with one document, so their APIs are merged before the server
//! starts.

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

use super::access::{self, Need, Needs};
use super::intake::Compressed;
use super::memory::Memory;
use super::openapi::complete;
use super::unread::{self, Unread};

/// Smaller responses are not compressed: they fit into a few packets, and compression would only delay them.
const COMPRESSED_FROM: u16 = 4 * 1024;

/// Routes and their document.
#[derive(Clone)]
pub struct Api {
    router: Router,
    document: OpenApi,
    needs: Needs,
}

impl Api {
    /// The routes of a product, and what a client needs to use them. The responses that all routes share are added to
    /// their document.
    pub fn new(routes: OpenApiRouter, needs: Needs) -> Api {
        let (router, document) = routes.split_for_parts();
        Api { router, document: complete(document), needs }
    }

    /// A document for routes that are implemented elsewhere. Merging others into it keeps its title.
    pub fn document_only(document: OpenApi, needs: Needs) -> Api {
        Api { router: Router::new(), document, needs }
    }

    /// Adds the routes and the document of another API.
    ///
    /// # Panics
    /// If both have the same route, or different schemas with the same name. Both are mistakes in the program.
    pub fn merge(self, other: Api) -> Api {
        check_schemas(&self.document, &other.document);
        Api {
            router: self.router.merge(other.router),
            document: self.document.merge_from(other.document),
            needs: self.needs.merge(other.needs),
        }
    }

    /// What clients need to use the routes.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// The differences between the documented routes and the table of needs, for a test: there must be none.
    pub fn undocumented_needs(&self) -> Vec<String> {
        access::undocumented(&self.needs, &self.document)
    }

    /// The routes, and the document at `/openapi.json`.
    ///
    /// Each request needs a [`Principal`](super::Principal) in its extensions, except for open routes.
    ///
    /// `max_body_bytes` bounds a request body after decompression, because it is held in memory. Responses are
    /// compressed if the client accepts it, except event streams: events would be delayed in the compressor.
    pub fn into_router(self, max_body_bytes: usize) -> Router {
        let document = self.document.to_json().expect("a document is JSON");
        let document = ([(header::CONTENT_TYPE, "application/json")], document);
        let when = SizeAbove::new(COMPRESSED_FROM).and(NotForContentType::SSE);
        let compressed = CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(when);
        // An unknown encoding is rejected where the body is read, with the usual error body.
        let decompressed = RequestDecompressionLayer::new().pass_through_unaccepted(true);
        let needs = self.needs.merge(Needs::new(&[("GET", "/openapi.json", Need::Open)]));
        self.router
            .route("/openapi.json", get(async move || document))
            .layer(from_fn_with_state(needs.clone(), access::hide))
            // Counted before compression: the compressor keeps the input that it has not read.
            .layer(from_fn_with_state(Unread::default(), unread::bound))
            .layer(compressed)
            .layer((decompressed, MapRequestBodyLayer::new(Body::new)))
            .layer(DefaultBodyLimit::max(max_body_bytes))
            .layer(map_request_with_state(Memory::new(max_body_bytes), prepare))
            // The outermost: nothing is read or reserved for a request that may not be made.
            .layer(from_fn_with_state(needs, access::enforce))
    }
}

/// Adds to each request what reading its body needs.
async fn prepare(State(memory): State<Memory>, mut request: Request) -> Request {
    request.extensions_mut().insert(memory);
    if request.headers().contains_key(header::CONTENT_ENCODING) {
        request.extensions_mut().insert(Compressed);
    }
    request
}

/// Panics if two documents define a schema differently: merging would keep only one of them.
fn check_schemas(one: &OpenApi, other: &OpenApi) {
    let (Some(one), Some(other)) = (&one.components, &other.components) else { return };
    for (name, schema) in &one.schemas {
        assert!(other.schemas.get(name).is_none_or(|its| its == schema), "two different schemas are called {name}");
    }
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("paths", &self.document.paths.paths.keys()).finish_non_exhaustive()
    }
}
