//! Pictures of the console, for the documents: `make screenshots`.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::browser::{Browser, LAPTOP, PHONE, Theme};
use crate::process::{DataDir, PATIENCE, Reveille, up};

/// Pages for which there is a picture, by the name of its file.
const PICTURES: [(&str, &str); 5] =
    [("overview", ""), ("queues", "queues"), ("tasks", "tasks"), ("durable", "durable"), ("wake", "wake")];

/// How long the demo works before pictures are made of it, when they are kept: rates need several samples.
const DEMO_FOR: Duration = Duration::from_secs(90);

/// The pages must be usable while the demo works, in both themes. With `REVEILLE_SCREENSHOTS` set to a folder, pictures
/// are written into it; then the demo first works for a while.
#[tokio::test]
async fn pictures_of_the_demo() {
    let Some(browser) = Browser::start().await else { return };
    let Some(dir) = DataDir::new() else { return };
    let mut demo = up(&dir).await;
    demo.arg("--demo");
    let reveille = Reveille::start(demo);
    let console = reveille.line("/console").await;
    let (_, console) = console.split_once("http").expect("an address");
    let console = format!("http{}", console.split_whitespace().next().unwrap_or_default());
    let folder = std::env::var_os("REVEILLE_SCREENSHOTS").map(PathBuf::from);
    if folder.is_some() {
        sleep(DEMO_FOR).await;
    }
    let deadline = Instant::now() + PATIENCE;
    for (theme, of) in [(Theme::Light, "light"), (Theme::Dark, "dark")] {
        browser.theme(theme).await;
        for (name, page) in PICTURES {
            browser.resize(LAPTOP).await;
            browser.open(&format!("{console}{}{page}", if page.is_empty() { "" } else { "/" })).await;
            browser.says("[data-pulse]", "live").await;
            browser.check().await;
            assert!(Instant::now() < deadline + DEMO_FOR, "pages are slow");
            if let Some(folder) = &folder {
                browser.picture(&folder.join(format!("console-{name}-{of}.png"))).await;
                browser.resize(PHONE).await;
                browser.picture(&folder.join(format!("console-{name}-{of}-phone.png"))).await;
            }
        }
    }
    reveille.ended_by_repeating("INT").await;
}
