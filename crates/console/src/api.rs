//! Requests to the API without a socket.

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Extensions, Method, Request, StatusCode, header};
use reveille_wake::observing;
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

use crate::{Failure, Url};

/// The largest answer that becomes a page. Lists are paged, so that only a very large payload comes near it.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The API of this server. Cheap to clone.
#[derive(Clone)]
pub struct Api(Router);

/// What the API answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Api {
    /// A client of these routes.
    pub fn new(routes: Router) -> Api {
        Api(routes)
    }

    /// Sends a GET on behalf of the client that `visitor` describes.
    ///
    /// # Errors
    /// If the API answers with an error, or with something that is no `T`.
    pub(crate) async fn get<T: DeserializeOwned>(&self, url: &Url, visitor: &Extensions) -> Result<T, Failure> {
        let answer = self.send(Method::GET, url, visitor).await?;
        if !answer.status.is_success() {
            return Err(Failure::of(&answer));
        }
        serde_json::from_slice(&answer.body).map_err(|error| {
            tracing::error!(route = url.path(), %error, "the console does not understand an answer of the API");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer of the API has an unexpected form")
        })
    }

    async fn send(&self, method: Method, url: &Url, visitor: &Extensions) -> Result<Answer, Failure> {
        let broken = |what: &str| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, what);
        let request = Request::builder().method(method).uri(url.to_string()).header(header::ACCEPT, "application/json");
        let mut request = request.body(Body::empty()).map_err(|_| broken("the address of the request is not valid"))?;
        *request.extensions_mut() = visitor.clone();
        // What a page reads must not load pages again.
        let response = match observing(self.0.clone().oneshot(request)).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, MAX_ANSWER_BYTES).await.map_err(|_| broken("the answer of the API is too large"))?;
        Ok(Answer { status: parts.status, body })
    }
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Api")
    }
}
