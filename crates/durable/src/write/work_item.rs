//! Work items as they are stored: duroxide's JSON without the instance, which is a column of the row.
//!
//! The instance would be a twentieth of all bytes written. It is removed where serde writes it, as the first field of the
//! item, and inserted when the item is read. A text that has it, imported from another provider or written by hand, is
//! read as well.

use std::borrow::Cow;

use duroxide::providers::WorkItem;
use serde_json::Value;

/// An item that begins with one of these contains its instance.
const INSTANCE_FIELDS: [&str; 2] = ["\"instance\":", "\"parent_instance\":"];

/// # Errors
/// If the item cannot be encoded, which does not happen for the items of duroxide.
pub(crate) fn write(item: &WorkItem, instance: &str) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(item)?;
    let name = name(instance)?;
    if let Some(at) = fields(&text).filter(|at| text[*at..].starts_with(&name)) {
        text.replace_range(at..at + name.len(), "");
    }
    Ok(text)
}

/// # Errors
/// If the text is not an item that this version knows.
pub(crate) fn read(text: &str, instance: &str) -> serde_json::Result<WorkItem> {
    let whole = match fields(text).filter(|at| !INSTANCE_FIELDS.iter().any(|field| text[*at..].starts_with(field))) {
        Some(at) => Cow::Owned(format!("{}{}{}", &text[..at], name(instance)?, &text[at..])),
        None => Cow::Borrowed(text),
    };
    serde_json::from_str(&whole).or_else(|error| read_rewritten(text, instance).ok_or(error))
}

/// Reads an item that was written by hand: fields in another order, spaces between them, with the instance or without.
fn read_rewritten(text: &str, instance: &str) -> Option<WorkItem> {
    let mut item: Value = serde_json::from_str(text).ok()?;
    let fields = item.as_object_mut()?.values_mut().next()?.as_object_mut()?;
    fields.entry("instance").or_insert_with(|| instance.into());
    serde_json::from_value(item).ok()
}

/// The instance as the first field of an item.
fn name(instance: &str) -> serde_json::Result<String> {
    Ok(format!("{}{},", INSTANCE_FIELDS[0], serde_json::to_string(instance)?))
}

/// Where the fields of an item begin, as serde writes it: after `{"Kind":{`.
fn fields(text: &str) -> Option<usize> {
    const AFTER_KIND: &str = "\":{";
    let kind = text.strip_prefix("{\"")?;
    let length = kind.find('"')?;
    kind[length..].starts_with(AFTER_KIND).then_some(2 + length + AFTER_KIND.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(instance: &str) -> Vec<WorkItem> {
        let instance = || instance.to_owned();
        vec![
            WorkItem::ActivityCompleted { instance: instance(), execution_id: 1, id: 2, result: "\u{0}\":{".into() },
            WorkItem::ActivityExecute {
                instance: instance(),
                execution_id: 1,
                id: 2,
                name: "a".into(),
                input: "{\"instance\":".into(),
                session_id: None,
                tag: None,
            },
            WorkItem::CancelInstance { instance: instance(), reason: "r".into() },
            WorkItem::SubOrchCompleted {
                parent_instance: instance(),
                parent_execution_id: 1,
                parent_id: 2,
                result: "r".into(),
            },
        ]
    }

    /// An item is read back unchanged, for any instance name, from this format and from duroxide's own.
    #[test]
    fn items_are_read_back_unchanged() {
        for instance in ["order-42", "", "\"},{\":", "\u{0}\u{1F600}/'", "instance"] {
            for item in items(instance) {
                let text = write(&item, instance).expect("write");
                assert_eq!(read(&text, instance).expect("read"), item, "{text}");
                let own = serde_json::to_string(&item).expect("duroxide's own form");
                assert_eq!(read(&own, instance).expect("read"), item, "{own}");
                let of_another = write(&item, "another").expect("write");
                assert_eq!(read(&of_another, "another").expect("read"), item, "{of_another}");
            }
        }
    }

    /// Only the instance field is removed.
    #[test]
    fn the_instance_is_removed() {
        let item = WorkItem::CancelInstance { instance: "order-42".into(), reason: "order-42".into() };
        assert_eq!(write(&item, "order-42").expect("write"), r#"{"CancelInstance":{"reason":"order-42"}}"#);
    }

    /// An item written by hand may have spaces, or its fields in another order.
    #[test]
    fn items_written_by_hand_are_read() {
        let item = WorkItem::CancelInstance { instance: "a".into(), reason: "r".into() };
        for text in [
            r#" { "CancelInstance" : { "instance" : "a", "reason" : "r" } }"#,
            r#"{"CancelInstance":{"reason":"r","instance":"a"}}"#,
            r#"{"CancelInstance":{ "instance":"a","reason":"r"}}"#,
        ] {
            assert_eq!(read(text, "b").expect("read"), item, "{text}");
        }
        let by_jsonb = r#"{"CancelInstance": {"reason": "r"}}"#;
        assert_eq!(read(by_jsonb, "a").expect("read"), item, "{by_jsonb}");
        for text in ["", "{}", "null", r#"{"Unheard":{"instance":"a"}}"#, r#"{"CancelInstance":{}}"#] {
            assert!(read(text, "a").is_err(), "{text}");
        }
    }
}
