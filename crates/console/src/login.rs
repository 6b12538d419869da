//! The page on which a visitor logs in. It has no navigation: there is nothing to see yet.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, html};

use crate::assets::{ICON, SCRIPT, STYLE};
use crate::page::protect;

/// What the page shows.
#[derive(Debug, Default)]
pub struct Login<'a> {
    /// Why the last attempt failed.
    pub failure: Option<&'a str>,
    /// Whether there is an OpenID provider.
    pub provider: bool,
    /// The page to show after the login, relative to the console's root.
    pub next: &'a str,
    /// The user who is logged in.
    pub user: Option<&'a str>,
}

impl Login<'_> {
    /// The page at `/console/login`, or with `base` at an address below it.
    pub async fn page(self, status: StatusCode, base: &str) -> Response {
        let text = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    base href=(base);
                    title { "Log in · Reveille" }
                    link rel="stylesheet" href=(STYLE.address);
                    link rel="icon" type="image/svg+xml" href=(ICON.address);
                    script src=(SCRIPT.address) {}
                }
                body.login {
                    main #content tabindex="-1" {
                        h1 { "Reveille" }
                        @if let Some(failure) = self.failure {
                            p.error role="alert" { (failure) }
                        }
                        @if let Some(user) = self.user {
                            p { "You are logged in as " strong { (user) } "." }
                            form method="post" action="logout" { button type="submit" { "Log out" } }
                            p { a href="./" { "Go to the console" } }
                        } @else {
                            @if self.provider {
                                p { a.button href="login/oidc" { "Log in with single sign-on" } }
                            }
                            form method="post" action="login" {
                                input type="hidden" name="next" value=(self.next);
                                label.field {
                                    span { "Token" }
                                    input type="password" name="token" required autocomplete="current-password"
                                        autofocus spellcheck="false";
                                }
                                button.primary type="submit" { "Log in" }
                            }
                            p.quiet { "Tokens are created with " code { "reveille token create" } "." }
                        }
                    }
                }
            }
        };
        let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
        protect((status, headers, text.into_string()).into_response()).await
    }
}
