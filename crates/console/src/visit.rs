//! A request of a browser: which page, with which parameters, on whose behalf.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::Extensions;
use axum::http::request::Parts;
use maud::Markup;
use reveille_web::{Credentials, Principal};
use serde::de::DeserializeOwned;
use time::OffsetDateTime;

use crate::page::{Page, Section};
use crate::{Api, Console, Failure, MOUNT, Url};

/// A request for a page.
#[derive(Debug)]
pub struct Visit {
    api: Api,
    /// Who asks, for the access checks of the API.
    visitor: Extensions,
    principal: Principal,
    /// Below the console, without the first slash, encoded.
    path: String,
    /// Whether the address is the console's own, without a final slash.
    at_root: bool,
    parameters: Vec<(String, String)>,
    read_only: bool,
    /// When the page is made: relative times count from here.
    pub now: OffsetDateTime,
}

impl Visit {
    /// Asks the API, on behalf of the visitor.
    ///
    /// # Errors
    /// If the API answers with an error, which then is the page.
    pub async fn get<T: DeserializeOwned>(&self, url: &Url) -> Result<T, Failure> {
        self.api.get(url, &self.visitor).await.map_err(|failure| failure.at(self))
    }

    /// A parameter of the page's address. An empty one counts as absent.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().rev().find(|(known, _)| known == name)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }

    /// The address of this page.
    pub fn here(&self) -> Url {
        let given = self.parameters.iter().filter(|(_, value)| !value.is_empty()).cloned();
        Url::raw(&self.path, given.collect())
    }

    /// Who asks. What it may not do, the API refuses; a page leaves out what would be refused.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Whether actions are left out.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The name of the user, if there is a session that can be ended.
    pub(crate) fn user(&self) -> Option<String> {
        let is_session = self.principal.credentials() == Credentials::Session;
        is_session.then(|| self.principal.name().to_owned())
    }

    /// A page of a section.
    pub fn page(&self, section: Section, title: &str, content: Markup) -> Page {
        Page::new(self, section, title, content)
    }

    /// The console's root, relative to this page.
    pub(crate) fn base(&self) -> String {
        match (self.at_root, self.path.matches('/').count()) {
            (true, _) => "console/".to_owned(),
            (false, 0) => "./".to_owned(),
            (false, depth) => "../".repeat(depth),
        }
    }
}

impl FromRequestParts<Console> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Visit, Infallible> {
        let original = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
        let below = original.path().strip_prefix(MOUNT).unwrap_or_default().to_owned();
        let query = parts.uri.query().unwrap_or_default();
        let principal = parts.extensions.get::<Principal>().cloned().unwrap_or_else(Principal::anonymous);
        let mut visitor = Extensions::new();
        visitor.insert(principal.clone());
        Ok(Visit {
            api: console.api.clone(),
            visitor,
            principal,
            at_root: below.is_empty(),
            path: below.trim_start_matches('/').to_owned(),
            parameters: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            read_only: console.options.read_only,
            now: OffsetDateTime::now_utc(),
        })
    }
}
