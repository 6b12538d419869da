//! The console in a real browser: a running server, Debian's Chromium, WebDriver.
//!
//! A test starts a server on a schema of its own ([`server`]), fills it over the HTTP API, and opens pages in a browser
//! ([`browser`]). Every page that a test has finished with goes through [`browser::Browser::check`]: nothing in the
//! console's log (an error of a script, a violation of the Content-Security-Policy), no accessibility fault that axe
//! finds, nothing wider than the window. The browser waits for events of the page, not for time.

mod browser;
mod durable;
#[allow(dead_code, reason = "written for the tests of the program")]
#[path = "../it/http.rs"]
mod http;
mod keys;
mod live;
mod pages;
mod pictures;
mod prefix;
#[allow(dead_code, reason = "written for the tests of the program")]
#[path = "../it/process.rs"]
mod process;
mod queues;
mod server;
mod tasks;
mod webdriver;
