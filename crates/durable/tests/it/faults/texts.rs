//! Text of any kind and size is returned unchanged.

use std::sync::Arc;

use duroxide::providers::{Provider, TagFilter};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus, RuntimeOptions,
};
use reveille_durable::PostgresProvider;
use reveille_pg::testing::Proxy;

use super::{PATIENCE, connected, four_each, options};
use crate::consistency;
use crate::fixture::Fixture;

/// Everywhere that an orchestration can have text: together they fill every column with text.
#[derive(Clone)]
struct Words {
    instance: String,
    child: String,
    session: String,
    tag: String,
    event: String,
    queue: String,
    key: String,
}

impl Words {
    /// All of them made from one.
    fn of(word: &str) -> Words {
        let with = |what: &str| format!("{what} {word}");
        Words {
            instance: with("instance"),
            child: with("child"),
            session: with("session"),
            tag: with("tag"),
            event: with("event"),
            queue: with("queue"),
            key: with("key"),
        }
    }
}

/// A runtime with an orchestration that carries its input through everything that stores text: activities, a session, a
/// tag, a child, an event, a queue, keys and values, its custom status and its output.
async fn runtime(provider: &PostgresProvider, words: Words) -> Arc<Runtime> {
    let options = RuntimeOptions { worker_tag_filter: TagFilter::default_and([words.tag.as_str()]), ..four_each() };
    let activities = ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, input: String| async move { Ok(input) })
        .register("Where", |ctx: ActivityContext, _: String| async move {
            Ok(ctx.session_id().or(ctx.tag()).unwrap_or_default().to_owned())
        });
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .register("Everything", move |ctx: OrchestrationContext, input: String| {
            let words = words.clone();
            async move {
                ctx.set_custom_status(&words.key);
                ctx.set_kv_value(&words.key, &input);
                if ctx.schedule_activity_on_session("Where", "", &words.session).await? != words.session {
                    return Err("another session".to_owned());
                }
                if ctx.schedule_activity("Where", "").with_tag(&words.tag).await? != words.tag {
                    return Err("another tag".to_owned());
                }
                let child = ctx.schedule_sub_orchestration_with_id("Child", &words.child, &input).await?;
                ctx.set_custom_status(&words.event);
                let event = ctx.schedule_wait(&words.event).await;
                let queued = ctx.dequeue_event(&words.queue).await;
                if [&child, &event, &queued].iter().any(|text| **text != input) {
                    return Err("another text".to_owned());
                }
                ctx.set_custom_status(&child);
                Ok(child)
            }
        });
    Runtime::start_with_options(Arc::new(provider.clone()), activities.build(), orchestrations.build(), options).await
}

/// Runs it with `text` and reads everything back, from another process's view as well.
async fn carries(words: Words, text: &str) {
    let Fixture { db, provider } = Fixture::new().await;
    let proxy = Proxy::start(&db).await;
    let elsewhere = PostgresProvider::connect(proxy.url(), options(db.schema())).await.expect("a provider");
    connected(&elsewhere).await;
    let runtime = runtime(&provider, words.clone()).await;
    let client = Client::new(Arc::new(elsewhere.clone()));
    let instance = words.instance.as_str();
    client.start_orchestration(instance, "Everything", text).await.expect("started");
    client.enqueue_event(instance, &words.queue, text).await.expect("queued");
    let waiting = elsewhere.wait_for_status_change(instance, 1, PATIENCE).await.expect("an answer");
    let status = match &waiting {
        Some(OrchestrationStatus::Running { custom_status, .. }) => custom_status.as_deref(),
        _ => None,
    };
    assert_eq!(status, Some(words.event.as_str()), "{waiting:?}");
    client.raise_event(instance, &words.event, text).await.expect("raised");

    let ended = elsewhere.wait_for_completion(instance, PATIENCE).await.expect("an answer");
    let Some(OrchestrationStatus::Completed { output, custom_status, .. }) = ended else {
        panic!("ended as {ended:?}")
    };
    assert!(output == text && custom_status.as_deref() == Some(text), "another output or custom status");
    let value = client.get_kv_value(instance, &words.key).await.expect("its keys");
    assert!(value.as_deref() == Some(text), "another value");
    let all = client.get_kv_all_values(instance).await.expect("its keys");
    assert!(all.len() == 1 && all.get(&words.key).is_some_and(|value| value == text), "other values");
    for reader in [&provider, &elsewhere] {
        consistency::check(instance, 1, &reader.read(instance).await.expect("its history"));
    }
    let info = client.get_instance_info(instance).await.expect("its facts");
    assert!(info.instance_id == instance && info.output.as_deref() == Some(text), "other facts");
    let tree = client.get_instance_tree(instance).await.expect("its tree");
    assert_eq!(tree.all_ids.len(), 2, "{:?}", tree.all_ids);
    assert!(tree.all_ids.contains(&info.instance_id), "{:?}", tree.all_ids);
    let listed = client.list_all_instances().await.expect("the list");
    assert!(listed.contains(&words.instance), "{listed:?}");
    runtime.shutdown(None).await;

    let deleted = client.delete_instance(instance, true).await.expect("deleted");
    assert_eq!(deleted.instances_deleted, 2, "itself and its child");
    assert!(client.list_all_instances().await.expect("the list").is_empty());
}

/// U+0000, which PostgreSQL cannot hold, survives wherever a user can put it: ids, sessions, tags, names of events and
/// queues, keys, values, statuses, inputs and outputs. So does the character it is escaped with.
#[tokio::test(flavor = "multi_thread")]
async fn a_zero_character_survives_everywhere() {
    carries(Words::of("a\0b\0\0c\u{1}0\u{1}"), "\0 in \"the\" \\u0000 middle \u{1}0\0").await;
}

/// Quotes, slashes, emoji and what looks like SQL are only text, in an id of two hundred characters.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_may_be_called_anything() {
    let odd = r#"it's "odd" \ // ../ {schema} $1 %s '; drop table instances; -- 🦀👩‍👩‍👧 ünï:コ "#;
    let long: String = odd.chars().cycle().take(200).collect();
    assert_eq!(long.chars().count(), 200);
    carries(Words { instance: long.clone(), child: format!("{long}/2"), ..Words::of(odd) }, odd).await;
}

/// Payloads of ten megabytes go through: into an orchestration, an activity and a child, out of them, and in by an
/// event.
/// Text that does not compress, so that it is as large for the server as it is here.
#[tokio::test(flavor = "multi_thread")]
async fn payloads_of_ten_megabytes_go_through() {
    const BYTES: usize = 10_000_000;
    let random = std::iter::repeat_with(fastrand::alphanumeric);
    let text: String = random.take(BYTES).collect();
    let Fixture { db: _db, provider } = Fixture::new().await;
    let activities =
        ActivityRegistry::builder().register("Echo", |_: ActivityContext, input: String| async move { Ok(input) });
    let orchestrations =
        OrchestrationRegistry::builder().register("Large", |ctx: OrchestrationContext, input: String| async move {
            let returned = ctx.schedule_activity("Echo", input).await?;
            ctx.set_custom_status("waiting");
            let event = ctx.schedule_wait("event").await;
            if returned == event { Ok(returned) } else { Err("another text".to_owned()) }
        });
    let runtime = Runtime::start_with_options(
        Arc::new(provider.clone()),
        activities.build(),
        orchestrations.build(),
        RuntimeOptions::default(),
    )
    .await;
    let client = Client::new(Arc::new(provider.clone()));
    client.start_orchestration("large", "Large", &text).await.expect("started");
    let waiting = provider.wait_for_status_change("large", 0, PATIENCE).await.expect("an answer");
    assert!(matches!(waiting, Some(OrchestrationStatus::Running { .. })), "it did not come to wait");
    client.raise_event("large", "event", &text).await.expect("raised");
    let ended = provider.wait_for_completion("large", PATIENCE).await.expect("an answer");
    let Some(OrchestrationStatus::Completed { output, .. }) = ended else { panic!("it did not complete") };
    assert!(output == text, "another output");
    runtime.shutdown(None).await;
}
