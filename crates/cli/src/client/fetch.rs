//! Requests to the servers that the configuration names: keys of tokens, OpenID providers.
//!
//! They are rare, so each has a connection of its own. Answers are small documents, bounded in size and time.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT},
};
use reveille_access::jwt::{Fetch, Fetched, Outgoing};
use tokio::time::timeout;

use super::{Address, JSON, connection::Connector};

/// The largest document: a set of keys with their certificates has a few dozen kilobytes.
const DOCUMENT_MAX: usize = 1024 * 1024;

/// The longest time of a request, connecting included. The login of a user waits for it.
const FETCH_WITHIN: Duration = Duration::from_secs(10);

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// Sends requests with the authorities of this system.
#[derive(Clone, Copy, Debug)]
pub struct Documents;

impl Fetch for Documents {
    fn send(&self, request: Outgoing) -> Fetched<'_> {
        Box::pin(async move {
            let within = timeout(FETCH_WITHIN, send(request));
            within.await.unwrap_or_else(|_| Err(format!("no answer within {FETCH_WITHIN:?}")))
        })
    }
}

async fn send(outgoing: Outgoing) -> Result<Vec<u8>, String> {
    let (address, query) = outgoing.url.split_once('?').map_or((&*outgoing.url, None), |(it, query)| (it, Some(query)));
    let address: Address = address.parse().map_err(|_| format!("{address} is no address"))?;
    let path = if address.prefix().is_empty() { "/" } else { address.prefix() };
    let path = query.map_or(path.to_owned(), |query| format!("{path}?{query}"));
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = path.parse().map_err(|_| "the address is too long".to_owned())?;
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("reveille/", env!("CARGO_PKG_VERSION"))));
    headers.insert(HOST, address.host_header());
    headers.insert(ACCEPT, HeaderValue::from_static(JSON));
    if let Some(authorization) = &outgoing.authorization {
        let mut value =
            HeaderValue::from_str(authorization).map_err(|_| "the client secret is no header".to_owned())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    if let Some(form) = outgoing.form {
        headers.insert(CONTENT_TYPE, FORM);
        *request.method_mut() = Method::POST;
        *request.body_mut() = Full::new(form.into());
    }
    let connector = Connector::new(address).map_err(|error| explained(&error))?;
    let mut sender = connector.open().await.map_err(|error| explained(&error))?;
    let response = sender.send_request(request).await.map_err(|error| explained(&error))?;
    if response.status() != StatusCode::OK {
        return Err(format!("it answered with status {}", response.status()));
    }
    let body = Limited::new(response.into_body(), DOCUMENT_MAX).collect().await;
    let body = body.map_err(|_| format!("its answer broke off, or has more than {DOCUMENT_MAX} bytes"))?;
    Ok(body.to_bytes().into())
}

fn explained(error: &(dyn std::error::Error + 'static)) -> String {
    crate::error::explain(error)
}
