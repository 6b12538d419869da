//! Tables, with a pager that follows keys instead of counting pages.

use maud::{Markup, Render, html};

use crate::{Json, Url, Visit};

/// A table. On a narrow screen each row becomes a list, so every cell knows the head of its column.
#[derive(Debug)]
pub struct Table {
    caption: String,
    heads: Vec<String>,
    rows: Vec<Vec<Markup>>,
    /// Shown instead of a table without rows.
    empty: Option<Markup>,
    first: Option<Url>,
    next: Option<Url>,
}

impl Table {
    /// A table with these columns. A head that ends with `#` is a column of numbers. The first column names the row.
    pub fn new(caption: &str, heads: &[&str]) -> Table {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Table { caption: caption.to_owned(), heads, rows: Vec::new(), empty: None, first: None, next: None }
    }

    /// Adds a row for each element.
    pub fn rows<T>(mut self, of: impl IntoIterator<Item = T>, row: impl Fn(T) -> Vec<Markup>) -> Table {
        self.rows.extend(of.into_iter().map(row));
        self
    }

    /// What is shown if there are no rows.
    pub fn or(mut self, empty: Markup) -> Table {
        self.empty = Some(empty);
        self
    }

    /// Links to the next page if the answer has `next`, and to the first page if this is another. `parameter` is the
    /// one that continues the list: `after`.
    pub fn pages(mut self, visit: &Visit, parameter: &str, next: &Json) -> Table {
        self.first = visit.parameter(parameter).is_some().then(|| visit.here().without(parameter));
        self.next = (!next.is_null()).then(|| visit.here().with(parameter, next.shown()));
        self
    }
}

impl Render for Table {
    fn render(&self) -> Markup {
        let is_number = |head: &String| head.ends_with('#').then_some("number");
        let label = |head: &String| head.trim_end_matches('#').to_owned();
        // A column without any content only takes space; the first one names the rows.
        let is_shown = |index: &usize| {
            *index == 0
                || self.rows.is_empty()
                || self.rows.iter().any(|row| row.get(*index).is_some_and(|cell| !cell.0.is_empty()))
        };
        let shown: Vec<usize> = (0..self.heads.len()).filter(is_shown).collect();
        html! {
            @if self.rows.is_empty() && self.first.is_none() && let Some(empty) = &self.empty { (empty) } @else {
                div.scroll role="region" aria-label=(self.caption) tabindex="0" {
                    table.rows data-rows="" {
                        caption { (self.caption) }
                        thead { tr { @for index in &shown { @let head = &self.heads[*index]; th scope="col" class=[is_number(head)] { (label(head)) } } } }
                        tbody {
                            @for row in &self.rows {
                                tr {
                                    @for (index, cell) in row.iter().enumerate().filter(|(index, _)| shown.contains(index)) {
                                        @let head = self.heads.get(index);
                                        @if index == 0 {
                                            th scope="row" class=[head.and_then(is_number)] { (cell) }
                                        } @else {
                                            td class=[head.and_then(is_number)] data-head=[head.map(label)] { (cell) }
                                        }
                                    }
                                }
                            }
                            @if self.rows.is_empty() { tr { td colspan=(shown.len()) { "Nothing more." } } }
                        }
                    }
                }
                @if self.first.is_some() || self.next.is_some() {
                    nav.pager aria-label={ "Pages of " (self.caption) } {
                        @if let Some(first) = &self.first { a href=(first) rel="first" { "First page" } }
                        @if let Some(next) = &self.next { a href=(next) rel="next" { "Next page" } }
                    }
                }
            }
        }
    }
}
