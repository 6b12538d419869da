//! Key rotation, missing keys, and ciphertexts that were moved.

use reveille_queue::{AckStatus, Change, DeadLetterFilter, Error, KeyId, Options, Page, Pop};

use crate::fixture::{Elsewhere, Fixture, end, message, now, of, push, soon, transactions};

fn keys(keys: &[u8]) -> Options {
    Options::default().encryption_keys(keys.iter().map(|key| [*key; 32]).collect())
}

async fn encrypted(queues: &reveille_queue::Queues, queue: &str) {
    let change = Change { encryption_enabled: Some(true), ..Change::default() };
    queues.configure(queue, None, None, &change).await.expect("configured");
}

fn payloads(batch: &reveille_queue::Batch) -> Vec<&str> {
    batch.messages.iter().map(|message| message.payload.get()).collect()
}

/// The query of `docs/queue.md` for the keys that are still needed: by messages, by buffered messages, by dead letters.
const KEYS_IN_USE: &str = "
    select encode(substr(payload, 5, 4), 'hex') as key, count(*) as messages
    from (select unnest(payloads) as payload from {schema}.segment where encrypted
          union all select payload from {schema}.buffered where encrypted
          union all select payload from {schema}.dead_letter where encrypted) as stored
    where payload <> ''
    group by 1 order by 1";

/// A key is replaced while there are messages: first every server can decrypt with the new one, then it encrypts, and
/// then the old one is removed.
/// The servers of the three steps are three processes on one schema.
#[tokio::test]
async fn keys_are_rotated_without_losing_messages() {
    let old = Fixture::with(keys(&[1])).await;
    encrypted(&old, "q").await;
    push(&old, "q", "p", &["old"]).await;
    let both = Elsewhere::with(&old.db, keys(&[1, 2])).await;
    push(&both.queues, "q", "p", &["still old"]).await;
    let turned = Elsewhere::with(&old.db, keys(&[2, 1])).await;
    push(&turned.queues, "q", "p", &["new"]).await;

    let sql = old.db.schema().sql(KEYS_IN_USE);
    let mut used: Vec<(String, i64)> =
        sqlx::query_as(&sql).fetch_all(old.db.database().pool()).await.expect("the keys in use");
    let mut expected = vec![(KeyId::of(&[1; 32]).to_string(), 2), (KeyId::of(&[2; 32]).to_string(), 1)];
    used.sort();
    expected.sort();
    assert_eq!(used, expected);

    assert_eq!(payloads(&soon(&both.queues, of("q", "a", 3)).await), ["\"old\"", "\"still old\"", "\"new\""]);
    assert_eq!(payloads(&soon(&turned.queues, of("q", "b", 3)).await), ["\"old\"", "\"still old\"", "\"new\""]);
    let new = Elsewhere::with(&old.db, keys(&[2])).await;
    push(&new.queues, "q", "other", &["by the new key alone"]).await;
    assert_eq!(payloads(&soon(&new.queues, of("q", "other", 1)).await).len(), 1);
}

/// A server without the key of a message reports it: the pop fails and names the key, the health check has the reason,
/// and the message stays for a server with the key.
#[tokio::test]
async fn a_missing_key_is_an_error_that_names_it() {
    let queues = Fixture::with(keys(&[1])).await;
    encrypted(&queues, "q").await;
    push(&queues, "q", "p", &["1"]).await;
    let wrong = Elsewhere::with(&queues.db, keys(&[2])).await;
    assert_eq!(wrong.queues.encryption_failure(), None);
    let failed = wrong.queues.pop(of("q", "g", 1), None).await.expect_err("another key");
    let id = KeyId::of(&[1; 32]);
    assert!(matches!(&failed, Error::WrongKey { key: Some(key), .. } if *key == id), "{failed}");
    let trouble = wrong.queues.encryption_failure().expect("known to the health check");
    assert!(trouble.contains(&id.to_string()) && trouble.contains("\"q\""), "{trouble}");
    assert!(failed.to_string().contains(&id.to_string()), "{failed}");
    assert_eq!(transactions(&soon(&queues, of("q", "g", 1)).await), ["1"]);
    assert_eq!(queues.encryption_failure(), None);
    assert_eq!(queues.count("select count(*) from {schema}.dead_letter").await, 0);
}

/// A push to an encrypted queue on a server without keys is rejected, and the health check reports it.
#[tokio::test]
async fn a_push_without_a_key_fails_the_health_check() {
    let queues = Fixture::with(keys(&[1])).await;
    encrypted(&queues, "q").await;
    let without = Elsewhere::start(&queues.db).await;
    let refused = without.queues.push(vec![message("q", "p", "1")]).await;
    assert!(matches!(refused, Err(Error::NoKey { .. })), "{refused:?}");
    assert!(without.queues.encryption_failure().expect("known").contains("no key"));
}

/// A ciphertext that was copied to another message, and one that was changed, are not delivered and do not block their
/// partition: they become dead letters, and the messages around them are read. Both are made by SQL, as a user with
/// access to the database would.
#[tokio::test]
async fn moved_and_changed_ciphertexts_become_dead_letters() {
    let queues = Fixture::with(keys(&[1])).await;
    encrypted(&queues, "q").await;
    encrypted(&queues, "secret").await;
    push(&queues, "secret", "p", &["salary"]).await;
    push(&queues, "q", "p", &["1", "moved", "changed", "4"]).await;
    let tamper = queues.db.schema().sql(
        "update {schema}.segment s
         set payloads[2] = (select o.payloads[1] from {schema}.segment o where o.transaction_ids[1] = 'salary'),
             payloads[3] = set_byte(s.payloads[3], length(s.payloads[3]) - 1, get_byte(s.payloads[3], length(s.payloads[3]) - 1) # 1)
         where s.transaction_ids[1] = '1'",
    );
    let done = sqlx::query(&tamper).execute(queues.db.database().pool()).await.expect("tampered with");
    assert_eq!(done.rows_affected(), 1);

    let batch = soon(&queues, of("q", "g", 10)).await;
    assert_eq!(payloads(&batch), ["\"1\"", "\"4\""]);
    end(&queues, &batch, AckStatus::Completed).await;
    assert!(now(&queues, of("q", "g", 10)).await.is_none());
    let letters =
        queues.dead_letters(&DeadLetterFilter::default(), Page { limit: 10, offset: 0 }).await.expect("listed");
    let mut listed: Vec<_> =
        letters.rows.iter().map(|letter| (letter.transaction_id.as_str(), letter.payload.is_none())).collect();
    listed.sort_unstable();
    assert_eq!(listed, [("changed", true), ("moved", true)]);
    assert!(
        letters.rows[0].error.as_deref().is_some_and(|why| why.contains("changed or moved")),
        "{:?}",
        letters.rows[0].error
    );
    assert!(queues.encryption_failure().expect("known").contains("changed or moved"));
}

/// A pop with autoAck does not consume damaged messages, either, and a transaction id that was changed in the database
/// does not keep the message from the dead letters.
#[tokio::test]
async fn a_changed_transaction_id_does_not_open() {
    let queues = Fixture::with(keys(&[1])).await;
    encrypted(&queues, "q").await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let tamper = queues.db.schema().sql("update {schema}.segment set transaction_ids[1] = 'other'");
    sqlx::query(&tamper).execute(queues.db.database().pool()).await.expect("tampered with");
    let auto = Pop { auto_ack: true, ..of("q", "g", 10) };
    assert_eq!(transactions(&soon(&queues, auto).await), ["2"]);
    assert_eq!(queues.count("select count(*) from {schema}.dead_letter where transaction_id = 'other'").await, 1);
}

/// Messages that were buffered during maintenance, and replayed dead letters, can be decrypted afterwards.
#[tokio::test]
async fn encrypted_messages_survive_maintenance_and_replay() {
    let queues = Fixture::with(keys(&[1])).await;
    encrypted(&queues, "q").await;
    queues.set_push_maintenance(true).await.expect("begun");
    push(&queues, "q", "p", &["1"]).await;
    queues.set_push_maintenance(false).await.expect("ended");
    let batch = soon(&queues, of("q", "g", 1)).await;
    assert_eq!(payloads(&batch), ["\"1\""]);
    end(&queues, &batch, AckStatus::DeadLetter).await;
    let replayed = queues.replay(&DeadLetterFilter::default()).await.expect("replayed");
    assert_eq!((replayed.replayed, replayed.skipped.len()), (1, 0));
    assert_eq!(payloads(&soon(&queues, of("q", "g", 1)).await), ["\"1\""]);
}

/// Messages that were stored in the first format, without the id of a key, are still read.
/// They are written by SQL: a nonce and a ciphertext that an earlier version made with the key of 32 ones.
#[tokio::test]
async fn messages_of_the_first_format_are_read() {
    let queues = Fixture::with(keys(&[2, 1])).await;
    encrypted(&queues, "q").await;
    push(&queues, "q", "p", &["1"]).await;
    let stored = queues.db.schema().sql("update {schema}.segment set payloads[1] = decode($1, 'hex')");
    sqlx::query(&stored).bind(FIRST_FORMAT).execute(queues.db.database().pool()).await.expect("stored");
    assert_eq!(payloads(&soon(&queues, of("q", "g", 1)).await), ["[1]"]);
}

/// `[1]` under the key of 32 bytes of one and the nonce of 12 bytes of seven.
const FIRST_FORMAT: &str = "070707070707070707070707d6c2b75915700e7f31fe5cfe27e54c632a228e";
