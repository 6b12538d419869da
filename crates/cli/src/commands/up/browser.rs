//! Opens the console in the browser of the desktop: `reveille up --open`.
//!
//! The browser is a convenience: without one, or if it fails, there is a line that says so, and the server runs on. Root
//! starts none: a browser that runs as root shows web pages as root, and leaves files of root in a user's home.

use std::process::Stdio;

use tokio::process::Command;

use crate::{config::is_root, logging::announce};

/// The program that opens an address with the user's own choice of browser.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens `url`, or says why not. The program runs by itself: it ends neither with this process nor by its Ctrl-C.
pub(super) fn open(url: String) {
    let variable = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let desktop = cfg!(target_os = "macos") || variable("DISPLAY") || variable("WAYLAND_DISPLAY");
    if let Some(why) = obstacle(is_root(), desktop) {
        return announce(format_args!("{why}: open {url} yourself"));
    }
    let mut opener = Command::new(OPENER);
    opener.arg(&url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    tokio::spawn(async move {
        let failure = match opener.status().await {
            Ok(status) if status.success() => return,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        announce(format_args!("{OPENER} has not opened the browser ({failure}): open {url} yourself"));
    });
}

/// Why no browser is started; `None` if there is no reason.
fn obstacle(root: bool, desktop: bool) -> Option<&'static str> {
    match (root, desktop) {
        (true, _) => Some("no browser is started as root"),
        (false, false) => Some("there is no desktop to open a browser on"),
        (false, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a user with a desktop gets a browser, and root never does.
    #[test]
    fn only_a_user_with_a_desktop_gets_a_browser() {
        assert_eq!(obstacle(false, true), None);
        for (root, desktop) in [(true, true), (true, false), (false, false)] {
            assert!(obstacle(root, desktop).is_some(), "root {root}, desktop {desktop}");
        }
    }
}
