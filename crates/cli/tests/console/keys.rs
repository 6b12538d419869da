//! Keys, the palette, the theme.

use crate::browser::Browser;
use crate::server::Server;

const CONTROL: char = '\u{e009}';
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";

/// The palette must open by Ctrl-K, find a page by a part of its name, and go there by Enter; Escape closes it.
#[tokio::test]
async fn the_palette_goes_to_a_page() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    browser.open(&server.page("")).await;
    browser.appears("html[data-script]").await;
    browser.press("k", Some(CONTROL)).await;
    browser.appears("dialog.palette[open]").await;
    browser.check().await;
    browser.press(ESCAPE, None).await;
    browser.until("!document.querySelector('dialog.palette')").await;
    browser.press("k", Some(CONTROL)).await;
    browser.fill("dialog.palette input", "dura").await;
    browser.says("dialog.palette [aria-selected=true]", "Durable").await;
    browser.press(ENTER, None).await;
    browser.until("location.pathname === '/console/durable'").await;
}

/// `g` and a letter must go to a section; `?` must show the keys.
#[tokio::test]
async fn letters_go_to_sections_and_show_the_keys() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    browser.open(&server.page("")).await;
    browser.appears("html[data-script]").await;
    browser.press("?", None).await;
    browser.appears("dialog.keys[open]").await;
    browser.check().await;
    browser.press(ESCAPE, None).await;
    browser.until("!document.querySelector('dialog.keys')").await;
    browser.press("gw", None).await;
    browser.until("location.pathname === '/console/wake'").await;
}

/// The theme switch must change the colours and be remembered on the next page.
#[tokio::test]
async fn the_theme_is_remembered() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    browser.theme(crate::browser::Theme::Light).await;
    browser.open(&server.page("")).await;
    browser.appears("html[data-script]").await;
    let background = "return getComputedStyle(document.body).backgroundColor";
    let light = browser.run(background).await;
    browser.click("[data-theme-switch]").await;
    let dark = browser.run(background).await;
    assert_ne!(light, dark);
    browser.open(&server.page("wake")).await;
    assert_eq!(browser.run(background).await, dark);
}
