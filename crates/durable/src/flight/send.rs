//! Messages to instances.

use std::time::Duration;

use pg::{Schema, Sql};
use sqlx::PgConnection;
use wake::{Boarded, Channel, Flight, Landed, Ring};

use crate::message::{Message, millis};

/// Sends messages. One that arrived twice would be an event raised twice, so outcomes are kept.
pub(crate) struct Send {
    channel: Channel,
    sql: Sql,
}

impl Send {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Send {
        Send { channel, sql: schema.sql(include_str!("../../sql/enqueue.sql")) }
    }
}

impl Flight for Send {
    type Member = Message;
    type Key = ();
    type Outcome = ();
    const KEPT: bool = true;

    fn key(&self, _: &Message) {}

    fn bytes(&self, message: &Message) -> usize {
        message.bytes()
    }

    fn rings(&self, message: &Message, _: Option<&()>) -> Vec<Ring> {
        vec![self.channel.ring().after(message.due.delay())]
    }

    async fn fly(&self, conn: &mut PgConnection, boarded: &Boarded<'_, Message>) -> pg::Result<Landed> {
        let messages = &boarded.members;
        let instances: Vec<&str> = messages.iter().map(|message| message.instance.as_str()).collect();
        let delays: Vec<i64> = messages.iter().map(|message| delay_ms(message.due.delay())).collect();
        let items: Vec<&str> = messages.iter().map(|message| message.item.as_str()).collect();
        Landed::of(&boarded.query(&self.sql).bind(instances).bind(delays).bind(items).fetch_one(conn).await?)
    }

    fn outcome(&self, _: &Message, _: &str) {}
}

/// Rounded up: a message must not be seen before its time.
pub(crate) fn delay_ms(delay: Duration) -> i64 {
    let ms = millis(delay);
    if Duration::from_millis(ms as u64) < delay { ms + 1 } else { ms }
}
