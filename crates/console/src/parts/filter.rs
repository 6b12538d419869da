//! The form of a list's filter. It is bound to the page's address: submitting it goes there, and works without a script.

use maud::{Markup, Render, html};

use crate::{Url, Visit};

/// Fields that are always shown; the others open on demand, or when one of them is set.
const SHOWN: usize = 4;

/// A filter. Its fields are parameters of the page; `after` is dropped, because another filter begins at the first page.
#[derive(Debug)]
pub struct Filter {
    here: Url,
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    name: String,
    label: String,
    value: String,
    /// The values to choose from, with their labels; none: a line of text.
    choices: Vec<(String, String)>,
}

impl Filter {
    /// The filter of this page.
    pub fn of(visit: &Visit) -> Filter {
        Filter { here: visit.here().without("after").without("before"), fields: Vec::new() }
    }

    fn field(mut self, name: &str, label: &str, choices: Vec<(String, String)>) -> Filter {
        let value = self.here.parameters().iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
        self.fields.push(Field { name: name.to_owned(), label: label.to_owned(), value: value.to_owned(), choices });
        self
    }

    /// A line of text. The first one has the focus key `/`.
    pub fn text(self, name: &str, label: &str) -> Filter {
        self.field(name, label, Vec::new())
    }

    /// One of some values, or any.
    pub fn choice<'a>(self, name: &str, label: &str, of: impl IntoIterator<Item = (&'a str, &'a str)>) -> Filter {
        let choices = of.into_iter().map(|(value, label)| (value.to_owned(), label.to_owned())).collect();
        self.field(name, label, choices)
    }
}

impl Render for Field {
    fn render(&self) -> Markup {
        let Field { name, label, value, choices } = self;
        html! {
            label { span { (label) }
                @if choices.is_empty() {
                    input type="search" name=(name) value=(value) autocomplete="off" spellcheck="false";
                } @else {
                    select name=(name) {
                        option value="" { @if name == "sort" { "name" } @else { "any" } }
                        @for (choice, label) in choices { option value=(choice) selected[choice == value] { (label) } }
                    }
                }
            }
        }
    }
}

impl Render for Filter {
    fn render(&self) -> Markup {
        let of_form = |name: &str| self.fields.iter().any(|field| field.name == name);
        let is_set = self.fields.iter().any(|field| !field.value.is_empty());
        let cleared = self.fields.iter().fold(self.here.clone(), |url, field| url.without(&field.name));
        let (first, more) = self.fields.split_at(self.fields.len().min(SHOWN));
        html! {
            form.filter method="get" action=(self.here.path()) role="search" data-filter="" {
                @for (name, value) in self.here.parameters().iter().filter(|(name, _)| !of_form(name)) {
                    input type="hidden" name=(name) value=(value);
                }
                @for field in first { (field) }
                button type="submit" { "Filter" }
                @if is_set { a.button href=(cleared) { "Clear" } }
                @if !more.is_empty() {
                    details open[more.iter().any(|field| !field.value.is_empty())] {
                        summary { "More filters" }
                        div.more { @for field in more { (field) } }
                    }
                }
            }
        }
    }
}
