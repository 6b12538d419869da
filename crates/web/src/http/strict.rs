//! Rejects query parameters that a route does not have.
//!
//! An ignored parameter does silent harm: `?namespce=a` lists everything, and `?wait=1000` does not wait. The
//! parameters of a route are read from its OpenAPI document, so that the two cannot differ. An undocumented wildcard
//! route (`/a/{*rest}`, for clients that do not escape slashes) accepts the parameters of the documented routes below
//! it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};
use utoipa_axum::router::OpenApiRouter;

use super::error::ApiError;
use super::openapi::failure;
use super::proceed::proceed;

/// The query parameters of each route.
type Parameters = HashMap<(Method, String), Vec<String>>;

/// Makes routes reject undocumented query parameters. Apply it after nesting: routes are identified by their full
/// paths.
pub fn strict<S: Clone + Send + Sync + 'static>(mut routes: OpenApiRouter<S>) -> OpenApiRouter<S> {
    let parameters = Arc::new(parameters(routes.get_openapi_mut()));
    // So every route may respond with 400.
    for item in routes.get_openapi_mut().paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let rejected = || RefOr::T(failure("Unknown query parameter"));
            operation.responses.responses.entry("400".to_owned()).or_insert_with(rejected);
        }
    }
    routes.route_layer(from_fn_with_state(parameters, check))
}

fn parameters(document: &OpenApi) -> Parameters {
    let mut all = HashMap::new();
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
                all.insert((method, path.clone()), of_operation(operation));
            }
        }
    }
    all
}

fn of_operation(operation: &Operation) -> Vec<String> {
    let all = operation.parameters.iter().flatten();
    let of_query = all.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if matches!(parameter.parameter_in, ParameterIn::Query) => Some(parameter.name.clone()),
        _ => None,
    });
    of_query.collect()
}

async fn check(State(parameters): State<Arc<Parameters>>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    // HEAD is handled by the GET route.
    let method = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
    let allowed = path.and_then(|path| of_route(&parameters, &method, &path));
    let query = request.uri().query().unwrap_or_default();
    let unknown = allowed.and_then(|allowed| {
        let mut sent = form_urlencoded::parse(query.as_bytes());
        sent.find(|(name, _)| !allowed.iter().any(|allowed| allowed == name)).map(|(name, _)| unknown(&name, &allowed))
    });
    match unknown {
        Some(error) => error.into_response(),
        None => proceed(next, request).await,
    }
}

/// The parameters of a route. `None` if there is no such route with this method.
fn of_route<'a>(parameters: &'a Parameters, method: &Method, path: &str) -> Option<Cow<'a, [String]>> {
    if let Some(documented) = parameters.get(&(method.clone(), path.to_owned())) {
        return Some(Cow::Borrowed(documented));
    }
    let (above, rest) = path.rsplit_once('/')?;
    let is_below = |path: &str| path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let below = parameters.iter().filter(|((of, path), _)| of == method && rest.starts_with("{*") && is_below(path));
    let mut all: Vec<String> = below.flat_map(|(_, names)| names.iter().cloned()).collect();
    all.sort_unstable();
    all.dedup();
    rest.starts_with("{*").then_some(Cow::Owned(all))
}

fn unknown(name: &str, allowed: &[String]) -> ApiError {
    let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
    ApiError::bad_request(format!("unknown query parameter `{name}`: this route takes {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wildcard route must accept the parameters of the documented routes below it with the same method, and no
    /// others. There are two routes below, one beside it with a longer name, and one with another method.
    #[test]
    fn a_wildcard_route_has_the_parameters_of_the_routes_below() {
        let of = |method: Method, path: &str, name: &str| ((method, path.to_owned()), vec![name.to_owned()]);
        let parameters = Parameters::from([
            of(Method::GET, "/a/{b}", "x"),
            of(Method::GET, "/a/{b}/depth", "y"),
            of(Method::GET, "/a/{b}s", "other"),
            of(Method::DELETE, "/a/{b}", "z"),
        ]);
        let allowed = |method, path| of_route(&parameters, &method, path).map(Cow::into_owned);
        assert_eq!(allowed(Method::GET, "/a/{b}/{*rest}"), Some(vec!["x".to_owned(), "y".to_owned()]));
        assert_eq!(allowed(Method::DELETE, "/a/{b}/{*rest}"), Some(vec!["z".to_owned()]));
        assert_eq!(allowed(Method::POST, "/a/{b}/{*rest}"), Some(Vec::new()));
        assert_eq!(allowed(Method::GET, "/a/{b}/depth"), Some(vec!["y".to_owned()]));
        assert_eq!(allowed(Method::GET, "/a/{b}/more"), None);
    }
}
