//! Query parameters that a route does not know are refused.
//!
//! A parameter that is passed over does harm in silence: `?namespce=a` lists everything, and `?wait=1000` does not wait. Which parameters a route knows is in its description, and is
//! read from there, so that the two cannot differ. A route beside the described ones that takes the rest of a path, for clients that do not escape slashes, knows what those below it know.

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

use crate::error::ApiError;
use crate::openapi::failure;

/// What each route knows.
type Known = HashMap<(Method, String), Vec<String>>;

/// Routes that refuse parameters which their description does not name. Apply it when the routes have their whole paths: nested ones are known by those.
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
    let known = path.and_then(|path| of_route(&known, &method, &path));
    let query = request.uri().query().unwrap_or_default();
    let unknown = known.and_then(|known| {
        let mut given = form_urlencoded::parse(query.as_bytes());
        given.find(|(name, _)| !known.iter().any(|known| known == name)).map(|(name, _)| refused(&name, &known))
    });
    match unknown {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

/// The parameters of a route. `None`: it answers nothing to this method.
fn of_route<'a>(known: &'a Known, method: &Method, path: &str) -> Option<Cow<'a, [String]>> {
    if let Some(known) = known.get(&(method.clone(), path.to_owned())) {
        return Some(Cow::Borrowed(known));
    }
    let (above, rest) = path.rsplit_once('/')?;
    let is_below = |path: &str| path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let below = known.iter().filter(|((of, path), _)| of == method && rest.starts_with("{*") && is_below(path));
    let mut all: Vec<String> = below.flat_map(|(_, parameters)| parameters.iter().cloned()).collect();
    all.sort_unstable();
    all.dedup();
    rest.starts_with("{*").then_some(Cow::Owned(all))
}

fn refused(name: &str, known: &[String]) -> ApiError {
    let instead = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    ApiError::bad_request(format!("unknown query parameter `{name}`: this route takes {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A route that takes the rest of a path must know what the described routes below it know with the same method, and nothing of others.
    /// Two routes below, one beside it with a longer name, and one of another method.
    #[test]
    fn a_route_with_the_rest_of_a_path_knows_what_lies_below() {
        let of = |method: Method, path: &str, name: &str| ((method, path.to_owned()), vec![name.to_owned()]);
        let known = Known::from([
            of(Method::GET, "/a/{b}", "x"),
            of(Method::GET, "/a/{b}/depth", "y"),
            of(Method::GET, "/a/{b}s", "other"),
            of(Method::DELETE, "/a/{b}", "z"),
        ]);
        let told = |method, path| of_route(&known, &method, path).map(Cow::into_owned);
        assert_eq!(told(Method::GET, "/a/{b}/{*rest}"), Some(vec!["x".to_owned(), "y".to_owned()]));
        assert_eq!(told(Method::DELETE, "/a/{b}/{*rest}"), Some(vec!["z".to_owned()]));
        assert_eq!(told(Method::POST, "/a/{b}/{*rest}"), Some(Vec::new()));
        assert_eq!(told(Method::GET, "/a/{b}/depth"), Some(vec!["y".to_owned()]));
        assert_eq!(told(Method::GET, "/a/{b}/more"), None);
    }
}
