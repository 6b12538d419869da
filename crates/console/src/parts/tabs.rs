//! Views of one page, as links: `?tab=groups`.

use maud::{Markup, html};

use crate::Visit;

/// The tabs of a page, each with its parameter's value and its label; the first one is the default. Returns the chosen
/// one as well.
pub fn tabs(visit: &Visit, of: &[(&'static str, &str)]) -> (&'static str, Markup) {
    let first = of.first().map_or("", |(name, _)| *name);
    let asked = visit.parameter("tab").unwrap_or(first);
    let chosen = of.iter().map(|(name, _)| *name).find(|name| *name == asked).unwrap_or(first);
    let bare = crate::Url::raw(visit.here().path(), Vec::new());
    let markup = html! {
        nav.tabs aria-label="Views" {
            @for (name, label) in of {
                @let url = if *name == first { bare.clone() } else { bare.clone().with("tab", name) };
                a href=(url) aria-current=[(*name == chosen).then_some("page")] { (label) }
            }
        }
    };
    (chosen, markup)
}
