//! A client of a running server, for commands.
//!
//! Commands need little of HTTP: one request after another, JSON in both directions, sometimes a response that comes
//! hours later, and server-sent events. So this is hyper's client on connections of its own, without a pool of threads,
//! redirects, cookies or decompression. TLS is rustls with the crate `ring` and the authorities of the system, which
//! the database driver has in the binary already.
//!
//! - A request has a [`Route`]: every name is a percent-encoded segment, so a queue may be called `a/b?c`.
//! - An [`Answer`] keeps the text of the server. `--json` prints it unchanged, so numbers lose no digits.
//! - An [`Error`] says what to do, and has the exit code of the command.
//! - Redirects are errors: the token must not reach another server.

mod address;
mod answer;
mod connection;
mod error;
mod events;
mod fetch;
mod route;

use std::{sync::Arc, time::Duration};

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LOCATION, USER_AGENT},
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::timeout;

pub use address::Address;
pub use answer::Answer;
use connection::{Connector, Sender};
pub use error::Error;
pub use events::{Event, Events};
pub use fetch::Documents;
pub use hyper::Method;
pub use route::Route;

/// The largest response: the server's are 16 MB and rarely more, and one message may be as large as a request.
const ANSWER_MAX: usize = 256 * 1024 * 1024;
/// The longest wait for an ordinary response: longer than any statement of the server. A response that is waited for on
/// purpose has no limit.
const ANSWER_WITHIN: Duration = Duration::from_secs(300);
/// Idle connections that are kept.
const IDLE_MAX: usize = 4;

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// A client of one server. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    connector: Connector,
    headers: HeaderMap,
    idle: Mutex<Vec<Sender>>,
}

impl Client {
    /// A client of the server at `address`, which is not contacted yet. `token` is sent with every request.
    ///
    /// # Errors
    /// [`Error::Token`] if the token has characters that no token has, [`Error::Authorities`] if the address is
    /// `https://` and the system has no certificates of authorities.
    pub fn new(address: Address, token: Option<&str>) -> Result<Client, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("reveille/", env!("CARGO_PKG_VERSION"))));
        headers.insert(HOST, address.host_header());
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| Error::Token)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Client(Arc::new(Inner { connector: Connector::new(address)?, headers, idle: Mutex::default() })))
    }

    /// The address of the server.
    pub fn address(&self) -> &Address {
        &self.0.connector.address
    }

    /// `GET`.
    ///
    /// # Errors
    /// If there is no response, or one with a status of 300 or more.
    pub async fn get(&self, route: &Route) -> Result<Answer, Error> {
        self.request(Method::GET, route, None).await
    }

    /// `GET` of a response that may take any time, such as that of a waiting pop.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn get_waiting(&self, route: &Route) -> Result<Answer, Error> {
        let (response, sender) = self.send(Method::GET, route, None, JSON, &[]).await?;
        self.read(response, sender).await
    }

    /// `POST` with a JSON body.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn post(&self, route: &Route, body: &impl Serialize) -> Result<Answer, Error> {
        self.request(Method::POST, route, Some((JSON, json(body)))).await
    }

    /// The same for a response that may take any time, such as that of a waiting claim.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn post_waiting(&self, route: &Route, body: &impl Serialize) -> Result<Answer, Error> {
        let (response, sender) = self.send(Method::POST, route, Some((JSON, json(body))), JSON, &[]).await?;
        self.read(response, sender).await
    }

    /// `PUT` with a JSON body.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn put(&self, route: &Route, body: &impl Serialize) -> Result<Answer, Error> {
        self.request(Method::PUT, route, Some((JSON, json(body)))).await
    }

    /// `PATCH` with a JSON body.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn patch(&self, route: &Route, body: &impl Serialize) -> Result<Answer, Error> {
        self.request(Method::PATCH, route, Some((JSON, json(body)))).await
    }

    /// `DELETE`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn delete(&self, route: &Route) -> Result<Answer, Error> {
        self.request(Method::DELETE, route, None).await
    }

    /// A request with a body of any content type, such as YAML.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn request(
        &self,
        method: Method,
        route: &Route,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Answer, Error> {
        let answered = async {
            let (response, sender) = self.send(method, route, body, JSON, &[]).await?;
            self.read(response, sender).await
        };
        match timeout(ANSWER_WITHIN, answered).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Silent { server: self.address().to_string(), within: ANSWER_WITHIN }),
        }
    }

    /// Server-sent events, from the one after `last_event_id`. `None`: there are none any more (204).
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn events(&self, route: &Route, last_event_id: Option<&str>) -> Result<Option<Events>, Error> {
        let last = last_event_id.map(|id| ("last-event-id", id));
        let (response, sender) = self.send(Method::GET, route, None, EVENT_STREAM, last.as_slice()).await?;
        match response.status() {
            StatusCode::NO_CONTENT => Ok(None),
            StatusCode::OK if is(&response, EVENT_STREAM) => {
                Ok(Some(Events::new(response.into_body(), self.address().to_string())))
            }
            // Not a stream: an error, or another program.
            _ => {
                let answer = self.read(response, sender).await?;
                Err(self.foreign(answer.status(), "no content type of events"))
            }
        }
    }

    /// Sends a request and waits for the head of its response, on an idle connection or a new one.
    async fn send(
        &self,
        method: Method,
        route: &Route,
        body: Option<(&'static str, Bytes)>,
        accept: &'static str,
        more: &[(&'static str, &str)],
    ) -> Result<(Response<Incoming>, Sender), Error> {
        let inner = &self.0;
        let path = format!("{}{}", self.address().prefix(), route.as_str());
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| Error::TooLong)?;
        *request.headers_mut() = inner.headers.clone();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        for (name, value) in more {
            let value = HeaderValue::from_str(value).map_err(|_| Error::TooLong)?;
            request.headers_mut().insert(*name, value);
        }
        if let Some((content_type, body)) = body {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            *request.body_mut() = Full::new(body);
        }
        // The server may have closed an idle connection; what was not sent is sent on another.
        loop {
            let idle = inner.idle.lock().pop();
            let is_new = idle.is_none();
            let mut sender = match idle {
                Some(idle) if idle.is_closed() => continue,
                Some(idle) => idle,
                None => inner.connector.open().await?,
            };
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(Error::no_answer(self.address(), failed.into_error())),
                },
            }
        }
    }

    /// Reads a whole response; an error of the server is an error here.
    async fn read(&self, response: Response<Incoming>, sender: Sender) -> Result<Answer, Error> {
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("another address");
            return Err(Error::Redirect { server: self.address().to_string(), to: to.to_owned() });
        }
        let is_json = is(&response, JSON);
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or("none");
        let content_type = content_type.to_owned();
        let bytes = Limited::new(response.into_body(), ANSWER_MAX).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return Error::TooLarge { limit_mb: ANSWER_MAX / 1024 / 1024 };
            }
            Error::Cut { server: self.address().to_string(), source: error }
        })?;
        let bytes = bytes.to_bytes();
        if sender.is_ready() {
            let mut idle = self.0.idle.lock();
            if idle.len() < IDLE_MAX {
                idle.push(sender);
            }
        }
        let text = String::from_utf8(bytes.into()).ok().filter(|text| is_json || text.is_empty());
        match text {
            Some(text) if status.is_success() => Ok(Answer::new(status, text, self.address().to_string())),
            text => Err(self.failure(status, text.filter(|text| !text.is_empty()), &content_type)),
        }
    }

    /// The error of a response that is no success, or no JSON.
    fn failure(&self, status: StatusCode, text: Option<String>, content_type: &str) -> Error {
        let had_token = self.0.headers.contains_key(AUTHORIZATION);
        let Some(text) = text else {
            return match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    Error::Refused { message: format!("a proxy in front of it answered {status}"), had_token }
                }
                _ => self.foreign(status, content_type),
            };
        };
        let message = error::message_of(&text).unwrap_or_else(|| status.to_string());
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Error::Refused { message, had_token },
            StatusCode::NOT_FOUND => Error::NotFound { message },
            StatusCode::SERVICE_UNAVAILABLE => Error::Unavailable { message },
            _ => Error::Rejected { status: status.as_u16(), message, body: text },
        }
    }

    fn foreign(&self, status: StatusCode, content_type: &str) -> Error {
        Error::Foreign { server: self.address().to_string(), status, content_type: content_type.to_owned() }
    }
}

fn is(response: &Response<Incoming>, content_type: &str) -> bool {
    let given = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    given.get(..content_type.len()).is_some_and(|given| given.eq_ignore_ascii_case(content_type.as_bytes()))
}

/// The JSON of a body. Bodies have text keys and finite numbers, so this does not fail.
fn json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("a body is JSON").into()
}
