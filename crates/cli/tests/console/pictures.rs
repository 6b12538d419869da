//! Pictures of the console, for the documents: `make screenshots`.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::browser::{Browser, LAPTOP, Theme};
use crate::http::eventually;
use crate::process::{DataDir, PATIENCE, Reveille, up};

/// Pages that are opened, by the name of a picture.
const PAGES: [(&str, &str); 6] = [
    ("overview", ""),
    ("queue", "queues/demo.orders?tab=groups"),
    ("tasks", "tasks"),
    ("durable", "durable"),
    ("wake", "wake"),
    ("task", "tasks/"),
];

/// Pictures that the documents show.
const KEPT: [&str; 5] = ["overview-light", "overview-dark", "queue-light", "task-light", "wake-light"];

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
    let address = console.trim_start_matches("http://").trim_end_matches("/console").parse().expect("an address");
    let tasks = "/v1/tasks?name=order&status=complete&limit=1";
    let found = eventually(address, tasks, |answer| answer.body.contains("task_uuid")).await.json();
    let task = found["tasks"][0]["task_uuid"].as_str().expect("an id").to_owned();
    let folder = std::env::var_os("REVEILLE_SCREENSHOTS").map(PathBuf::from);
    if folder.is_some() {
        sleep(DEMO_FOR).await;
    }
    let deadline = Instant::now() + PATIENCE;
    for (theme, of) in [(Theme::Light, "light"), (Theme::Dark, "dark")] {
        browser.theme(theme).await;
        browser.resize(LAPTOP).await;
        for (name, page) in PAGES {
            let page = if name == "task" { format!("{page}{task}") } else { page.to_owned() };
            browser.open(&format!("{console}{}{page}", if page.is_empty() { "" } else { "/" })).await;
            browser.says("[data-pulse]", "live").await;
            browser.check().await;
            assert!(Instant::now() < deadline + DEMO_FOR, "pages are slow");
            let picture = format!("{name}-{of}");
            if let Some(folder) = folder.as_ref().filter(|_| KEPT.contains(&picture.as_str())) {
                browser.picture(&folder.join(format!("console-{picture}.png"))).await;
            }
        }
    }
    reveille.ended_by_repeating("INT").await;
}
