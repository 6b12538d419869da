//! `reveille durable show`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{instance, style};
use crate::{
    client::Answer,
    commands::remote::Remote,
    config::ShowInstance,
    error::Error,
    terminal::{Cell, Column, Screen, Style, Table, ago, compact, printable, truncated, when},
};

/// The most characters of a payload; `--json` has all.
const PAYLOAD_SHOWN: usize = 500;
/// The most instances of the tree.
const TREE_SHOWN: u32 = 200;

#[derive(Deserialize)]
struct Instance {
    name: String,
    version: Option<String>,
    status: String,
    reason: String,
    parent: Option<String>,
    execution: u64,
    created_at: String,
    updated_at: String,
    custom_status: Option<String>,
    output: Option<String>,
    output_bytes: Option<u64>,
    messages: Vec<Message>,
    more_messages: bool,
    activities: Vec<Activity>,
    more_activities: bool,
}

#[derive(Deserialize)]
struct Message {
    kind: String,
    name: Option<String>,
    due_at: Option<String>,
    attempts: u64,
}

#[derive(Deserialize)]
struct Activity {
    event_id: u64,
    name: String,
    is_running: bool,
    due_at: String,
    leased_until: Option<String>,
    attempts: u64,
    tag: Option<String>,
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    key: String,
    value: Option<String>,
    value_bytes: u64,
}

#[derive(Deserialize)]
struct Tree {
    instances: Vec<Node>,
    truncated: bool,
}

#[derive(Deserialize)]
struct Node {
    instance: String,
    parent: Option<String>,
    name: String,
    status: String,
}

pub(super) async fn run(remote: &Remote, args: ShowInstance) -> Result<(), Error> {
    let route = instance(&args.instance);
    let answer = match args.wait {
        Some(wait) => remote.client.get_waiting(&route.query("wait_ms", wait.as_millis())).await?,
        None => remote.client.get(&route).await?,
    };
    if remote.screen.is_json() {
        return remote.screen.json(answer.text());
    }
    show(&remote.screen, &args.instance, &answer)?;
    let keys = remote.client.get(&instance(&args.instance).and("keys").query("limit", 200)).await?;
    let keys: Keys = keys.json()?;
    if !keys.keys.is_empty() {
        let mut table = Table::new([Column::text("key"), Column::text("value")]);
        for Key { key, value, value_bytes } in keys.keys {
            table.row([key.into(), shortened(value, Some(value_bytes)).into()]);
        }
        section(&remote.screen, "Keys", &table)?;
    }
    let tree = remote.client.get(&instance(&args.instance).and("children").query("limit", TREE_SHOWN)).await?;
    let tree: Tree = tree.json()?;
    if tree.instances.len() > 1 {
        remote.screen.line(format_args!("\n{}", remote.screen.styled("Sub-orchestrations", Style::Bold)))?;
        for line in drawn(&remote.screen, &tree.instances) {
            remote.screen.line(line)?;
        }
        if tree.truncated {
            remote.screen.note(format_args!("there are more than {TREE_SHOWN} instances"));
        }
    }
    Ok(())
}

fn show(screen: &Screen, id: &str, answer: &Answer) -> Result<(), Error> {
    let it: Instance = answer.json()?;
    let version = it.version.map(|version| format!(" {version}")).unwrap_or_default();
    let text = |text: &str| printable(text).into_owned();
    let mut properties = vec![
        ("Instance", text(id)),
        ("Orchestration", text(&format!("{}{version}", it.name))),
        ("Status", screen.styled(&text(&it.status), style(&it.status))),
        ("", text(&it.reason)),
        ("Execution", it.execution.to_string()),
        ("Created", when(&it.created_at)),
        ("Changed", when(&it.updated_at)),
    ];
    properties.extend(it.parent.map(|parent| ("Parent", text(&parent))));
    properties.extend(it.custom_status.map(|status| ("Custom status", text(&status))));
    if it.output_bytes.is_some() {
        properties.push(("Output", text(&shortened(it.output, it.output_bytes))));
    }
    screen.properties(&properties)?;
    if !it.messages.is_empty() {
        let mut table = Table::new([
            Column::text("message"),
            Column::text("name"),
            Column::text("due"),
            Column::number("attempts"),
        ]);
        for Message { kind, name, due_at, attempts } in it.messages {
            let due = due_at.map_or_else(|| "when started".to_owned(), |at| ago(&at));
            table.row([kind.into(), name.unwrap_or_default().into(), due.into(), Cell::count(attempts)]);
        }
        section(screen, if it.more_messages { "Messages (the first 50)" } else { "Messages" }, &table)?;
    }
    if !it.activities.is_empty() {
        let mut table = Table::new([
            Column::number("event"),
            Column::text("activity"),
            Column::text("state"),
            Column::text("due"),
            Column::number("attempts"),
            Column::text("tag"),
        ]);
        for Activity { event_id, name, is_running, due_at, leased_until, attempts, tag } in it.activities {
            let state = match (is_running, leased_until) {
                (true, Some(until)) => Cell::styled(format!("running, lease ends {}", ago(&until)), Style::Busy),
                _ => "waiting".into(),
            };
            let tag = tag.unwrap_or_default().into();
            table.row([
                event_id.to_string().into(),
                name.into(),
                state,
                ago(&due_at).into(),
                Cell::count(attempts),
                tag,
            ]);
        }
        section(screen, if it.more_activities { "Activities (the first 50)" } else { "Activities" }, &table)?;
    }
    Ok(())
}

fn section(screen: &Screen, title: &str, table: &Table) -> Result<(), Error> {
    screen.line(format_args!("\n{}", screen.styled(title, Style::Bold)))?;
    screen.table(table, "")
}

/// A payload, cut.
fn shortened(payload: Option<String>, bytes: Option<u64>) -> String {
    let bytes = bytes.unwrap_or_default();
    match payload {
        None => format!("({bytes} bytes)"),
        Some(text) if serde_json::from_str::<&RawValue>(&text).is_ok() => {
            truncated(&compact(&text), PAYLOAD_SHOWN).into_owned()
        }
        Some(text) => truncated(&text, PAYLOAD_SHOWN).into_owned(),
    }
}

/// The tree, one line per instance. The nodes are level by level.
fn drawn(screen: &Screen, nodes: &[Node]) -> Vec<String> {
    let Some(root) = nodes.first() else { return Vec::new() };
    let mut lines = vec![label(screen, root)];
    // Children to draw, the next last, each with what is before it in its line.
    let below = |parent: &str| nodes.iter().skip(1).filter(|node| node.parent.as_deref() == Some(parent)).collect();
    let mut waiting: Vec<(Vec<&Node>, String)> = vec![(below(&root.instance), String::new())];
    while let Some((mut siblings, before)) = waiting.pop() {
        if siblings.is_empty() {
            continue;
        }
        let node = siblings.remove(0);
        let is_last = siblings.is_empty();
        lines.push(format!("{before}{}{}", if is_last { "└─ " } else { "├─ " }, label(screen, node)));
        let inner = format!("{before}{}", if is_last { "   " } else { "│  " });
        waiting.push((siblings, before));
        waiting.push((below(&node.instance), inner));
    }
    lines
}

fn label(screen: &Screen, node: &Node) -> String {
    let state = screen.styled(&printable(&node.status), style(&node.status));
    format!("{}  {}  {state}", printable(&node.instance), printable(&node.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Children are below their parents, with lines between siblings, whatever the order of the levels.
    #[test]
    fn a_tree_is_drawn_with_lines() {
        let node = |instance: &str, parent: Option<&str>| Node {
            instance: instance.to_owned(),
            parent: parent.map(str::to_owned),
            name: "N".to_owned(),
            status: "Running".to_owned(),
        };
        let nodes =
            [node("a", None), node("b", Some("a")), node("c", Some("a")), node("d", Some("b")), node("e\n", Some("c"))];
        let drawn = drawn(&Screen::new(false, false), &nodes).join("\n");
        let expected = "a  N  Running\n├─ b  N  Running\n│  └─ d  N  Running\n└─ c  N  Running\n   └─ e\\n  N  Running";
        assert_eq!(drawn, expected);
    }
}
