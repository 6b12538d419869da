//! What a list shows when it has nothing: what would be here, and what to do next.

use maud::{Markup, html};

/// `about` says what would be here; `example` is a command to try.
pub fn empty(title: &str, about: &str, example: &str) -> Markup {
    html! {
        div.empty {
            p.lead { (title) }
            p { (about) }
            @if !example.is_empty() { pre tabindex="0" { (example) } }
        }
    }
}
