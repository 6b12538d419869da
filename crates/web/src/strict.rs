//! Query parameters that a route does not know are refused.
//!
//! A parameter that is passed over does harm in silence: `?namespce=a` lists everything, and `?wait=1000` does not wait. Which parameters a route knows is in its description, and is
//! read from there, so that the two cannot differ.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};
use utoipa_axum::router::OpenApiRouter;

use crate::openapi::failure;
use crate::refusal::Refusal;

/// What each route knows.
type Known = HashMap<(Method, String), Vec<String>>;

/// Routes that refuse parameters which their description does not name. What is not described knows none.
pub fn strict<S: Clone + Send + Sync + 'static>(mut routes: OpenApiRouter<S>) -> OpenApiRouter<S> {
    let known = Arc::new(known(routes.get_openapi_mut()));
    // So every route may answer 400.
    for item in routes.get_openapi_mut().paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let refused = || RefOr::T(failure("A query parameter is not known here"));
            operation.responses.responses.entry("400".to_owned()).or_insert_with(refused);
        }
    }
    routes.route_layer(from_fn_with_state(known, check))
}

fn known(document: &OpenApi) -> Known {
    let mut known = HashMap::new();
    for (path, item) in &document.paths.paths {
        let operations = [
            (Method::GET, &item.get),
            (Method::POST, &item.post),
            (Method::PUT, &item.put),
            (Method::PATCH, &item.patch),
            (Method::DELETE, &item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                known.insert((method, path.clone()), parameters(operation));
            }
        }
    }
    known
}

fn parameters(operation: &Operation) -> Vec<String> {
    let all = operation.parameters.iter().flatten();
    let of_query = all.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if matches!(parameter.parameter_in, ParameterIn::Query) => Some(parameter.name.clone()),
        _ => None,
    });
    of_query.collect()
}

async fn check(State(known): State<Arc<Known>>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    // What is answered to GET is answered to HEAD.
    let method = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
    let known = path.and_then(|path| known.get(&(method, path)));
    let query = request.uri().query().unwrap_or_default();
    let unknown = known.and_then(|known| {
        let mut given = form_urlencoded::parse(query.as_bytes());
        given.find(|(name, _)| !known.iter().any(|known| known == name)).map(|(name, _)| refused(&name, known))
    });
    match unknown {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

fn refused(name: &str, known: &[String]) -> Refusal {
    let instead = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Refusal::bad(format!("unknown query parameter `{name}`: this route takes {instead}"))
}
