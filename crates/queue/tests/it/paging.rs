//! Pages that continue after their last element, and what a group gets next.

use reveille_queue::{
    AckStatus, BrowseFilter, Change, Content, DeadLetterFilter, MessageStatus, NewMessage, Options, PartitionFilter,
    Pop, QueueFilter, Source,
};

use crate::fixture::{Elsewhere, Fixture, end, json, message, of, push, soon};

fn payload(content: &Content) -> &str {
    match content {
        Content::Json(json) => json.get(),
        Content::Omitted => "omitted",
        Content::Unreadable(why) => why,
    }
}

/// Queues are listed in pages by name, with what waits in each, and found by a part of their name.
#[tokio::test]
async fn queues_are_listed_in_pages() {
    let queues = Fixture::new().await;
    for queue in ["a.x", "b", "C"] {
        push(&queues, queue, "p", &["1", "2", "3"]).await;
    }
    push(&queues, "b", "other", &["4"]).await;
    let batch = soon(&queues, Pop { source: Source::partition("b", "p"), ..of("b", "g", 2) }).await;
    queues.pause_group("b", "g", true).await.expect("paused");
    let any = QueueFilter::default();
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = queues.queues_after(&any, after.as_deref(), 1).await.expect("listed");
        names.extend(page.rows.into_iter().map(|queue| queue.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    names.sort();
    assert_eq!(names, ["C", "a.x", "b"], "each once");
    let b = queues.queue_summary("b").await.expect("asked").expect("a queue");
    let backlog = b.backlog.expect("counted");
    assert_eq!((b.partitions, b.groups, b.paused_groups), (2, 1, 1));
    assert_eq!((backlog.messages, backlog.depth, backlog.leased), (4, 4, 2));
    assert!(backlog.oldest_at.is_some());
    end(&queues, &batch, AckStatus::Completed).await;
    let backlog = queues.queue_summary("b").await.expect("asked").expect("a queue").backlog.expect("counted");
    assert_eq!((backlog.depth, backlog.leased), (2, 0));
    let found = async |filter: QueueFilter| {
        let page = queues.queues_after(&filter, None, 9).await.expect("listed");
        page.rows.into_iter().map(|queue| queue.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found(QueueFilter { search: Some("c".to_owned()), ..any.clone() }).await, "C");
    assert_eq!(found(QueueFilter { namespace: Some("a".to_owned()), ..any.clone() }).await, "a.x");
    assert_eq!(found(QueueFilter { search: Some("%".to_owned()), ..any }).await, "");
    assert!(queues.queue_summary("nothing").await.expect("asked").is_none());
}

/// Partitions are listed in pages by number, with their leases and retries, and found by their state.
#[tokio::test]
async fn partitions_are_listed_in_pages() {
    let queues = Fixture::new().await;
    for partition in ["a", "b", "c", "d"] {
        push(&queues, "q", partition, &["1", "2"]).await;
    }
    let leased = soon(&queues, of("q", "g", 1)).await;
    let failed = soon(&queues, of("q", "g", 1)).await;
    queues.ack(crate::fixture::say(&failed, &failed.messages, AckStatus::Failed)).await.expect("acked");
    let read = soon(&queues, of("q", "g", 2)).await;
    end(&queues, &read, AckStatus::Completed).await;
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = queues.partitions_after("q", None, None, after, 3).await.expect("listed").expect("a queue");
        assert!(page.rows.iter().all(|partition| partition.cursors.len() == 1 && partition.head == 2));
        names.extend(page.rows.into_iter().map(|partition| partition.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, ["a", "b", "c", "d"]);
    let found = async |name: Option<&str>, state: Option<PartitionFilter>| {
        let page = queues.partitions_after("q", name, state, None, 9).await.expect("listed").expect("a queue");
        assert!(page.next.is_none());
        page.rows.into_iter().map(|partition| partition.name).collect::<Vec<_>>()
    };
    assert_eq!(found(Some("c"), None).await, ["c"]);
    assert_eq!(found(None, Some(PartitionFilter::Leased)).await, [leased.messages[0].partition.clone()]);
    assert_eq!(found(None, Some(PartitionFilter::Retrying)).await, [failed.messages[0].partition.clone()]);
    assert_eq!(found(None, Some(PartitionFilter::Waiting)).await.len(), 3);
    assert!(queues.partitions_after("nothing", None, None, None, 9).await.expect("asked").is_none());
}

/// A page of messages must continue after its last message, also among messages of one push to many partitions, which
/// have one time. Pages of every size are compared with the whole list; deleted messages are not in it.
#[tokio::test]
async fn messages_are_listed_in_pages() {
    let queues = Fixture::new().await;
    let of_partition = |partition: &str, from: usize| {
        (from..from + 3).map(|n| message("q", partition, &format!("{partition}{n}"))).collect::<Vec<NewMessage>>()
    };
    let together = ["a", "b", "c"].iter().flat_map(|partition| of_partition(partition, 0)).collect();
    queues.push(together).await.expect("pushed");
    queues.push(of_partition("b", 3)).await.expect("pushed");
    let deleted =
        queues.browse("q", &BrowseFilter::default(), None, 100, false).await.expect("listed").expect("a queue");
    let one = deleted.rows.iter().find(|message| message.transaction_id == "c1").expect("the message");
    queues.delete_message(one.partition_id, "c1").await.expect("deleted");
    let listed = async |filter: &BrowseFilter, limit: u32| {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = queues.browse("q", filter, after, limit, true).await.expect("listed").expect("a queue");
            all.extend(page.rows.iter().map(|message| {
                assert_eq!(payload(&message.content), format!("{:?}", message.transaction_id));
                message.transaction_id.clone()
            }));
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    };
    let any = BrowseFilter::default();
    let whole = listed(&any, 100).await;
    assert_eq!(whole, ["b5", "b4", "b3", "a2", "a1", "a0", "b2", "b1", "b0", "c2", "c0"]);
    for limit in 1..12 {
        assert_eq!(listed(&any, limit).await, whole, "in pages of {limit}");
    }
    let of_b = BrowseFilter { partition: Some("b".to_owned()), ..any.clone() };
    assert_eq!(listed(&of_b, 2).await, ["b5", "b4", "b3", "b2", "b1", "b0"]);
    let batch = soon(&queues, of("q", "g", 2)).await;
    let with = |status| BrowseFilter { status: Some(status), ..any.clone() };
    assert_eq!(listed(&with(MessageStatus::Processing), 3).await.len(), 2);
    end(&queues, &batch, AckStatus::Completed).await;
    assert_eq!(listed(&with(MessageStatus::Completed), 3).await.len(), 2);
    assert_eq!(listed(&with(MessageStatus::Pending), 3).await.len(), 9);
    let middle = deleted.rows[0].created_at;
    assert_eq!(listed(&BrowseFilter { from: Some(middle), ..any.clone() }, 2).await, ["b5", "b4", "b3"]);
    assert_eq!(listed(&BrowseFilter { before: Some(middle), ..any }, 3).await.len(), 8);
    assert!(queues.browse("nothing", &BrowseFilter::default(), None, 9, false).await.expect("asked").is_none());
}

/// A look at what a group gets next must lease nothing, and be what the pops then get.
#[tokio::test]
async fn a_peek_leases_nothing() {
    let queues = Fixture::new().await;
    push(&queues, "q", "a", &["1", "2"]).await;
    push(&queues, "q", "b", &["3"]).await;
    let peek = async |group: Option<&str>, partition: Option<&str>, limit: u32| {
        let messages = queues.peek("q", group, partition, limit).await.expect("asked").expect("a queue");
        messages.iter().map(|message| payload(&message.content).trim_matches('"').to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(peek(Some("g"), None, 9).await, ["1", "2", "3"], "a group that does not exist");
    assert_eq!(queues.count("select count(*) from {schema}.consumer").await, 0);
    assert_eq!(peek(None, Some("b"), 9).await, ["3"]);
    assert_eq!(peek(None, None, 2).await, ["1", "2"]);
    let batch = soon(&queues, of("q", "g", 1)).await;
    let first = queues.peek("q", Some("g"), None, 1).await.expect("asked").expect("a queue").remove(0);
    assert!(first.leased_until.is_some() && first.transaction_id == "1");
    end(&queues, &batch, AckStatus::Completed).await;
    assert_eq!(peek(Some("g"), None, 9).await, ["2", "3"]);
    assert!(queues.peek("nothing", None, None, 9).await.expect("asked").is_none());
}

/// A payload that this process cannot decrypt must not hide its message: the reason is shown instead.
#[tokio::test]
async fn an_unreadable_payload_does_not_hide_its_message() {
    let queues = Fixture::with(Options::default().encryption_keys(vec![[7; 32]])).await;
    let change = Change { encryption_enabled: Some(true), ..Change::default() };
    queues.configure("q", None, None, &change).await.expect("configured");
    push(&queues, "q", "p", &["1"]).await;
    let keyless = Elsewhere::start(&queues.db).await;
    for (queues, expected) in [(&queues.queues, "\"1\""), (&keyless.queues, "key")] {
        let page = queues.browse("q", &BrowseFilter::default(), None, 9, true).await.expect("listed").expect("a queue");
        assert!(payload(&page.rows[0].content).contains(expected), "{page:?}");
        let peeked = queues.peek("q", None, None, 9).await.expect("asked").expect("a queue");
        assert!(payload(&peeked[0].content).contains(expected), "{peeked:?}");
        let info = queues.message_info(peeked[0].partition_id, "1").await.expect("asked").expect("the message");
        assert!(info.encrypted && payload(&info.content).contains(expected), "{info:?}");
    }
}

/// Dead letters are replayed and purged in steps that continue where the last one ended, and leave what failed after
/// the look. A replayed message says which dead letter it was, and may have another payload.
#[tokio::test]
async fn dead_letters_are_handled_in_steps() {
    let queues = Fixture::new().await;
    let names: Vec<String> = (0..7).map(|n| n.to_string()).collect();
    push(&queues, "q", "p", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    end(&queues, &soon(&queues, of("q", "g", 9)).await, AckStatus::DeadLetter).await;
    let filter = DeadLetterFilter { queue: Some("q".to_owned()), error: Some("BROK".to_owned()), ..Default::default() };
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = queues.dead_letters_after(&filter, after, 3).await.expect("listed");
        listed.extend(page.rows.into_iter().map(|letter| letter.transaction_id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, ["6", "5", "4", "3", "2", "1", "0"]);
    let seen = queues.matching(&filter).await.expect("counted");
    assert_eq!(seen.count, 7);
    let later = DeadLetterFilter { up_to: seen.up_to, ..filter.clone() };
    push(&queues, "q", "other", &["late"]).await;
    end(&queues, &soon(&queues, of("q", "g", 9)).await, AckStatus::DeadLetter).await;
    let step = queues.replay_step(&later, 0, 2).await.expect("replayed");
    assert_eq!((step.replayed, step.kept.len()), (2, 0));
    let step = queues.replay_step(&later, step.next.expect("more"), 2).await.expect("replayed");
    assert_eq!(step.replayed, 2);
    let traces = async |transaction: &str, partition| {
        let page = reveille_queue::Page { limit: 9, offset: 0 };
        queues.traces(partition, transaction, page).await.expect("listed").rows
    };
    let letter = queues.dead_letters_after(&later, None, 1).await.expect("listed").rows.remove(0);
    assert_eq!(queues.replay_edited(letter.id, &json("{\"new\": 1.0}")).await.expect("replayed"), Some(()));
    assert_eq!(queues.replay_edited(letter.id, &json("1")).await.expect("asked"), None, "it is gone");
    let replayed = queues.peek("q", Some("g"), Some("p"), 9).await.expect("asked").expect("a queue");
    assert_eq!(replayed.len(), 5);
    let last = replayed.last().expect("a message");
    assert_eq!(payload(&last.content), "{\"new\": 1.0}");
    let trace = traces(&last.transaction_id, last.partition_id).await.remove(0);
    assert_eq!((trace.event_type.as_str(), trace.group.as_str()), ("replayed", "g"));
    let origin: serde_json::Value = serde_json::from_str(trace.data.get()).expect("JSON");
    assert_eq!((&origin["dead_letter_id"], &origin["edited"]), (&letter.id.into(), &true.into()), "{origin}");
    assert_eq!((origin["transaction_id"].as_str(), origin["error"].as_str()), (Some("6"), Some("broken")));
    let (purged, next) = queues.purge_step(&later, 1).await.expect("purged");
    assert!(purged == 1 && next.is_some());
    assert_eq!(queues.purge_step(&later, 9).await.expect("purged"), (1, None));
    let rest = queues.dead_letters_after(&filter, None, 9).await.expect("listed").rows;
    assert_eq!(rest.iter().map(|letter| letter.transaction_id.as_str()).collect::<Vec<_>>(), ["late"]);
}
