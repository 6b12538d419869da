//! Actions: requests of the API that a visitor can send from a page.
//!
//! An action is a button that opens a dialog: what happens, its fields, the same as `curl`, as a command and as SQL.
//! The console's script builds the body from the fields and sends the request to the API of the same origin; this crate
//! has no route that changes anything. A destructive action must be confirmed by typing a word; one that affects many
//! rows first asks for a preview.

use axum::http::Method;
use maud::{Markup, Render, html};

use crate::json::quoted;
use crate::{Json, Url};

/// A request of the API, offered as a button.
#[derive(Debug, Clone)]
pub struct Action {
    label: String,
    method: Method,
    route: Url,
    /// What it does, in a sentence.
    about: String,
    /// Members of the body that are not fields, by path.
    fixed: Vec<(String, Json)>,
    fields: Vec<Field>,
    confirm: Option<String>,
    destructive: bool,
    preview: Option<Preview>,
    repeats: bool,
    command: Vec<String>,
    sql: Option<String>,
    /// Where to go afterwards; otherwise the page stays and its live parts are loaded again.
    then: Option<Url>,
}

/// What a preview asks the API: the same filter, without an effect.
#[derive(Debug, Clone)]
struct Preview {
    method: Method,
    route: Url,
    /// Members of the body in addition to those of the action.
    fixed: Vec<(String, Json)>,
}

/// A value that the visitor enters.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its path in the body: `options.leaseTime`, `items.0.payload`; or `?name` for a parameter of the query.
    path: String,
    label: String,
    kind: Kind,
    value: String,
    note: String,
    required: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Json,
    Flag,
    Time,
    Choice(Vec<String>),
}

impl Field {
    fn new(kind: Kind, path: &str, label: &str) -> Field {
        let (value, note) = (String::new(), String::new());
        Field { path: path.to_owned(), label: label.to_owned(), kind, value, note, required: false }
    }

    /// A line of text. An empty one is left out of the body.
    pub fn text(path: &str, label: &str) -> Field {
        Field::new(Kind::Text, path, label)
    }

    /// A number, sent with the digits that were entered.
    pub fn number(path: &str, label: &str) -> Field {
        Field::new(Kind::Number, path, label)
    }

    /// JSON, sent as it was entered.
    pub fn json(path: &str, label: &str) -> Field {
        Field::new(Kind::Json, path, label)
    }

    /// A check box; always sent.
    pub fn flag(path: &str, label: &str) -> Field {
        Field::new(Kind::Flag, path, label)
    }

    /// A time, entered in the visitor's time zone and sent in UTC.
    pub fn time(path: &str, label: &str) -> Field {
        Field::new(Kind::Time, path, label)
    }

    /// One of several texts.
    pub fn choice<'a>(path: &str, label: &str, of: impl IntoIterator<Item = &'a str>) -> Field {
        Field::new(Kind::Choice(of.into_iter().map(str::to_owned).collect()), path, label)
    }

    /// The value that it has at first. JSON is indented.
    #[must_use]
    pub fn value(mut self, value: &Json) -> Field {
        self.value = if self.kind == Kind::Json { value.pretty() } else { value.shown() };
        self
    }

    /// A sentence below it.
    #[must_use]
    pub fn note(mut self, note: &str) -> Field {
        self.note = note.to_owned();
        self
    }

    /// It may not be empty.
    #[must_use]
    pub fn required(mut self) -> Field {
        self.required = true;
        self
    }

    /// Its first value as JSON; `None` if it is left out.
    fn initial(&self) -> Option<String> {
        match self.kind {
            Kind::Flag => Some((self.value == "true").to_string()),
            _ if self.value.is_empty() => None,
            Kind::Number | Kind::Json => Json::parse(&self.value).ok().map(|value| value.to_string()),
            Kind::Text | Kind::Time | Kind::Choice(_) => Some(quoted(&self.value)),
        }
    }
}

impl Action {
    /// A button with this label, for this request.
    pub fn new(label: &str, method: Method, route: Url) -> Action {
        Action {
            label: label.to_owned(),
            destructive: method == Method::DELETE,
            method,
            route,
            about: String::new(),
            fixed: Vec::new(),
            fields: Vec::new(),
            confirm: None,
            preview: None,
            repeats: false,
            command: Vec::new(),
            sql: None,
            then: None,
        }
    }

    /// What it does, in a sentence.
    #[must_use]
    pub fn about(mut self, about: &str) -> Action {
        self.about = about.to_owned();
        self
    }

    /// A member of the body, by its path: `options.leaseTime`, `items.0.queue`.
    #[must_use]
    pub fn body(mut self, path: &str, value: impl Into<Json>) -> Action {
        self.fixed.push((path.to_owned(), value.into()));
        self
    }

    /// A value that the visitor enters.
    #[must_use]
    pub fn field(mut self, field: Field) -> Action {
        self.fields.push(field);
        self
    }

    /// It destroys something.
    #[must_use]
    pub fn destructive(mut self) -> Action {
        self.destructive = true;
        self
    }

    /// It destroys something, and the visitor has to type this word first.
    #[must_use]
    pub fn confirm_by_typing(mut self, word: &str) -> Action {
        self.confirm = Some(word.to_owned());
        self.destructive()
    }

    /// It affects many: this request says how many and which, before anything happens. It has the body of the action,
    /// and the members `fixed` in addition: `("dry_run", true)`.
    #[must_use]
    pub fn preview(
        mut self,
        method: Method,
        route: Url,
        fixed: impl IntoIterator<Item = (&'static str, Json)>,
    ) -> Action {
        let fixed = fixed.into_iter().map(|(path, value)| (path.to_owned(), value)).collect();
        self.preview = Some(Preview { method, route, fixed });
        self
    }

    /// It is sent again until the answer has no `next`, which becomes `after` of the next request. The visitor sees the
    /// progress and can cancel between two requests.
    #[must_use]
    pub fn repeats(mut self) -> Action {
        self.repeats = true;
        self
    }

    /// The same as a command of `reveille`, argument by argument.
    #[must_use]
    pub fn command<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Action {
        self.command = arguments.into_iter().map(str::to_owned).collect();
        self
    }

    /// The same as SQL.
    #[must_use]
    pub fn sql(mut self, sql: &str) -> Action {
        self.sql = Some(sql.to_owned());
        self
    }

    /// Goes to this page afterwards.
    #[must_use]
    pub fn then(mut self, page: Url) -> Action {
        self.then = Some(page);
        self
    }

    /// The body with the first values of the fields; `None` if the request has no body.
    fn initial_body(&self) -> Option<String> {
        let fields = self.fields.iter().filter(|field| !field.path.starts_with('?'));
        let entered = fields.filter_map(|field| Some((field.path.as_str(), field.initial()?)));
        let fixed = self.fixed.iter().map(|(path, value)| (path.as_str(), value.to_string()));
        let mut root = Node::Members(Vec::new());
        for (path, value) in fixed.chain(entered) {
            root.set(path, value);
        }
        let has_body = !matches!(&root, Node::Members(members) if members.is_empty());
        (has_body || [Method::POST, Method::PUT, Method::PATCH].contains(&self.method)).then(|| root.json())
    }

    fn curl(&self) -> String {
        let mut url = self.route.clone();
        for field in self.fields.iter().filter(|field| !field.value.is_empty()) {
            if let Some(name) = field.path.strip_prefix('?') {
                url = url.with(name, &field.value);
            }
        }
        let mut text = format!("curl -X {} \"$REVEILLE_URL\"{}", self.method, shell(&url.to_string()));
        if let Some(body) = self.initial_body() {
            text.push_str(&format!(" \\\n  -H 'content-type: application/json' -d {}", shell(&body)));
        }
        text
    }

    fn fixed_plan(fixed: &[(String, Json)]) -> String {
        let entries = fixed.iter().map(|(path, value)| format!("[{},{}]", quoted(path), quoted(&value.to_string())));
        format!("[{}]", entries.collect::<Vec<_>>().join(","))
    }
}

/// A body while it is put together; leaves are JSON texts.
enum Node {
    Leaf(String),
    Members(Vec<(String, Node)>),
}

impl Node {
    fn set(&mut self, path: &str, value: String) {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let Node::Members(members) = self else { return };
        let at = members.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            members.push((name.to_owned(), Node::Members(Vec::new())));
            members.len() - 1
        });
        match rest {
            Some(rest) => members[at].1.set(rest, value),
            None => members[at].1 = Node::Leaf(value),
        }
    }

    fn json(&self) -> String {
        match self {
            Node::Leaf(text) => text.clone(),
            Node::Members(members)
                if !members.is_empty() && members.iter().all(|(name, _)| name.parse::<u32>().is_ok()) =>
            {
                format!("[{}]", members.iter().map(|(_, node)| node.json()).collect::<Vec<_>>().join(","))
            }
            Node::Members(members) => {
                let members = members.iter().map(|(name, node)| format!("{}:{}", quoted(name), node.json()));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// A word of a shell.
fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

impl Render for Action {
    fn render(&self) -> Markup {
        let commands: Vec<String> = self.command.iter().map(|argument| shell(argument)).collect();
        html! {
            div.action data-action="" {
                button type="button" class=[self.destructive.then_some("danger")] data-open="" { (self.label) }
                dialog aria-label=(self.label) {
                    form data-method=(self.method) data-route=(self.route) data-fixed=(Self::fixed_plan(&self.fixed))
                        data-repeats[self.repeats] data-then=[self.then.as_ref().map(ToString::to_string)]
                        data-preview-method=[self.preview.as_ref().map(|it| it.method.to_string())]
                        data-preview-route=[self.preview.as_ref().map(|it| it.route.to_string())]
                        data-preview-fixed=[self.preview.as_ref().map(|it| Self::fixed_plan(&it.fixed))] {
                        h2 { (self.label) }
                        @if !self.about.is_empty() { p { (self.about) } }
                        @for field in &self.fields { (field) }
                        @if self.preview.is_some() { div.preview data-preview="" aria-live="polite" {} }
                        @if let Some(word) = &self.confirm {
                            label.field { span { "Type " code { (word) } " to confirm" } input type="text" data-confirm=(word) autocomplete="off" spellcheck="false"; }
                        }
                        div.outcome data-outcome="" aria-live="polite" {}
                        div.buttons {
                            button.primary type="submit" class=[self.destructive.then_some("danger")] { (self.label) }
                            button type="button" data-close="" { "Cancel" }
                        }
                        details.as {
                            summary { "As a command" }
                            h3 { "curl" } pre data-curl="" tabindex="0" { (self.curl()) }
                            @if !commands.is_empty() { h3 { "reveille" } pre tabindex="0" { "reveille " (commands.join(" ")) } }
                            @if let Some(sql) = &self.sql { h3 { "SQL" } pre tabindex="0" { (sql) } }
                        }
                    }
                }
            }
        }
    }
}

impl Render for Field {
    fn render(&self) -> Markup {
        let kind = match self.kind {
            Kind::Text | Kind::Choice(_) => "text",
            Kind::Number => "number",
            Kind::Json => "json",
            Kind::Flag => "flag",
            Kind::Time => "time",
        };
        html! {
            label.field class=[(self.kind == Kind::Flag).then_some("flag")] {
                span { (self.label) }
                @match &self.kind {
                    Kind::Json => textarea data-path=(self.path) data-kind=(kind) required[self.required] rows="8" spellcheck="false" { (self.value) },
                    Kind::Flag => input type="checkbox" data-path=(self.path) data-kind=(kind) checked[self.value == "true"];,
                    Kind::Choice(options) => select data-path=(self.path) data-kind=(kind) required[self.required] {
                        @if !self.required { option value="" { "" } }
                        @for option in options { option selected[*option == self.value] { (option) } }
                    },
                    Kind::Time => input type="datetime-local" step="1" data-path=(self.path) data-kind=(kind) data-value=(self.value) required[self.required];,
                    Kind::Text | Kind::Number => input type="text" inputmode=[(kind == "number").then_some("decimal")] data-path=(self.path)
                        data-kind=(kind) value=(self.value) required[self.required] autocomplete="off" spellcheck="false";,
                }
                @if !self.note.is_empty() { small { (self.note) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request is shown with its fixed members and the first values of its fields, quoted for a shell; what a
    /// visitor could break out with is escaped.
    #[test]
    fn an_action_shows_its_request() {
        let action = Action::new("Push", Method::POST, Url::api(["api", "v1", "push"]))
            .body("items.0.queue", "it's <b>")
            .field(
                Field::json("items.0.payload", "Payload")
                    .value(&Json::parse("{\"n\":12345678901234567890}").expect("JSON")),
            )
            .field(Field::text("items.0.transactionId", "Transaction"))
            .field(Field::text("?dry", "Dry").value(&Json::from("a b")))
            .command(["queue", "push", "it's"]);
        let curl = "curl -X POST \"$REVEILLE_URL\"'/api/v1/push?dry=a%20b' \\\n  -H 'content-type: application/json' \
                    -d '{\"items\":[{\"queue\":\"it'\\''s <b>\",\"payload\":{\"n\":12345678901234567890}}]}'";
        assert_eq!(action.curl(), curl);
        let page = action.render().into_string();
        assert!(page.contains("reveille queue push 'it'\\''s'") && !page.contains("<b>"), "{page}");
    }
}
