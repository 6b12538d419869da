//! The frame of every page: head, navigation, title, actions.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::action::Action;
use crate::assets::{ICON, SCRIPT, STYLE};
use crate::{Url, Visit};

/// Everything comes from this server, nothing is inline, no other page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'";

/// A part of the console, as the navigation lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// No entry of the navigation.
    None,
    /// What needs attention.
    Overview,
    /// Queues, messages, consumer groups.
    Queues,
    /// Task graphs.
    Tasks,
    /// Orchestrations.
    Durable,
    /// The wake engine.
    Wake,
}

/// The navigation: the section, its path, its name, its drawing, and the key that follows `g`.
const NAVIGATION: [(Section, &str, &str, &str, &str); 5] = [
    (Section::Overview, "", "Overview", "M3 11 10 4l7 7M5 9.5V16h10V9.5", "o"),
    (Section::Queues, "queues", "Queues", "M3 5h14M3 10h14M3 15h9", "q"),
    (Section::Tasks, "tasks", "Tasks", "M4 10h4m0 0c3 0 2-5 5-5h3m-8 5c3 0 2 5 5 5h3M14 3l2 2-2 2m0 6 2 2-2 2", "t"),
    (Section::Durable, "durable", "Durable", "M10 6v4l3 2M3.5 8A7 7 0 1 1 3 10M3.5 4v4h4", "d"),
    (Section::Wake, "wake", "Wake", "M4 14h12M6 14a4 4 0 0 1 8 0M10 5v2M5 8l1.3 1.3M15 8l-1.3 1.3", "w"),
];

/// A page.
#[derive(Debug)]
pub struct Page {
    section: Section,
    title: String,
    content: Markup,
    /// The pages above it.
    crumbs: Vec<(String, Url)>,
    actions: Vec<Action>,
    status: StatusCode,
    base: String,
    here: Url,
    read_only: bool,
    /// The user of the session, who can log out.
    user: Option<String>,
    /// The products whose changes load the live parts again; empty: all.
    products: Vec<&'static str>,
}

impl Page {
    pub(crate) fn new(visit: &Visit, section: Section, title: &str, content: Markup) -> Page {
        Page {
            section,
            title: title.to_owned(),
            content,
            crumbs: Vec::new(),
            actions: Vec::new(),
            status: StatusCode::OK,
            base: visit.base(),
            here: visit.here(),
            read_only: visit.is_read_only(),
            user: visit.user(),
            products: Vec::new(),
        }
    }

    /// Names the page above this one; several in order from the top.
    #[must_use]
    pub fn within(mut self, title: &str, at: Url) -> Page {
        self.crumbs.push((title.to_owned(), at));
        self
    }

    /// Adds an action beside the title.
    #[must_use]
    pub fn action(mut self, action: Action) -> Page {
        self.actions.push(action);
        self
    }

    /// Loads the live parts again only after changes of this product: `queue`, `flow` or `durable`.
    #[must_use]
    pub fn live_on(mut self, product: &'static str) -> Page {
        self.products.push(product);
        self
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Page {
        self.status = status;
        self
    }

    fn render(self) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    base href=(self.base);
                    title { (self.title) " · Reveille" }
                    link rel="stylesheet" href=(STYLE.address);
                    link rel="icon" type="image/svg+xml" href=(ICON.address);
                    // Not deferred: it sets the chosen theme before the first paint.
                    script src=(SCRIPT.address) {}
                }
                body data-products=(self.products.join(" ")) data-read-only[self.read_only] {
                    header.bar {
                        // A bare fragment would be relative to the base.
                        a.skip href={ (self.here) "#content" } { "Skip to the content" }
                        a.brand href=(Url::link([])) { img src=(ICON.address) alt="" width="22" height="22"; "Reveille" }
                        nav aria-label="Sections" {
                            @for (section, path, name, drawing, key) in NAVIGATION {
                                a href=(Url::raw(path, Vec::new())) data-key=(key)
                                    aria-current=[(section == self.section).then_some("page")] {
                                    svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" {
                                        path d=(drawing) fill="none" stroke="currentColor" stroke-width="1.6"
                                            stroke-linecap="round" stroke-linejoin="round" {}
                                    }
                                    span { (name) }
                                }
                            }
                        }
                        div.tools {
                            button.search type="button" data-open-palette="" {
                                span { "Go to" } kbd { "Ctrl K" }
                            }
                            span.pulse role="status" data-pulse="" title="Live updates need JavaScript" { "static" }
                            @if let Some(user) = &self.user {
                                a.account href="login" title={ "Logged in as " (user) } { "Log out" }
                            }
                            button.theme type="button" data-theme-switch="" aria-label="Switch between dark and light" {
                                svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" {
                                    circle cx="10" cy="10" r="7" fill="none" stroke="currentColor" stroke-width="1.6" {}
                                    path d="M10 3a7 7 0 0 1 0 14z" fill="currentColor" {}
                                }
                            }
                        }
                    }
                    main #content tabindex="-1" {
                        div.title {
                            div {
                                @if !self.crumbs.is_empty() {
                                    nav.crumbs aria-label="Breadcrumbs" {
                                        ol { @for (title, at) in &self.crumbs { li { a href=(at) { (title) } } } }
                                    }
                                }
                                h1 { (self.title) }
                            }
                            @if !self.read_only && !self.actions.is_empty() {
                                div.actions { @for action in &self.actions { (action) } }
                            }
                        }
                        (self.content)
                    }
                    div.toasts role="status" aria-live="polite" data-toasts="" {}
                }
            }
        }
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
        (self.status, headers, self.render().into_string()).into_response()
    }
}

/// Adds the headers that every answer of the console has.
pub(crate) async fn protect(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
