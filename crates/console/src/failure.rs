//! Errors as pages.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;

use crate::api::Answer;
use crate::page::{Page, Section};
use crate::{Json, Url, Visit};

/// Why there is no page. Made by [`Visit::get`]; it becomes a page with the API's message.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    message: String,
    page: Option<Box<Page>>,
}

impl Failure {
    /// An error of the console itself.
    pub fn new(status: StatusCode, message: &str) -> Failure {
        Failure { status, message: message.to_owned(), page: None }
    }

    /// An error of the API.
    pub(crate) fn of(answer: &Answer) -> Failure {
        let body = std::str::from_utf8(&answer.body).ok().and_then(|text| Json::parse(text).ok());
        let message = body.as_ref().map(|body| body["error"].text()).filter(|text| !text.is_empty());
        Failure::new(answer.status, message.unwrap_or("the API gave no reason"))
    }

    /// The status of the API's answer.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether there is nothing of that name.
    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// As the page of a visit.
    #[must_use]
    pub fn at(mut self, visit: &Visit) -> Failure {
        let title = match self.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::UNAUTHORIZED => "Please log in",
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::SERVICE_UNAVAILABLE => "Temporarily unavailable",
            _ => "This did not work",
        };
        let content = html! {
            div.error role="alert" {
                p { (self.message) }
                p.quiet { "Status " (self.status.as_u16()) ". " a href=(visit.here()) { "Try again" } ", or go to the " a href=(Url::link([])) { "overview" } "." }
            }
        };
        self.page = Some(Box::new(visit.page(Section::None, title, content).status(self.status)));
        self
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self.page {
            Some(page) => page.into_response(),
            None => (self.status, self.message).into_response(),
        }
    }
}

/// For an address that is no page.
pub(crate) async fn no_page(visit: Visit) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "the console has no page at this address").at(&visit)
}
