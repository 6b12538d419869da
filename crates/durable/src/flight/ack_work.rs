//! Activities that have been executed, and what they tell their instances.

use pg::{Schema, Sql};
use sqlx::PgConnection;
use uuid::Uuid;
use wake::{Boarded, Channel, Flight, Landed, Ring};

use super::Fenced;
use crate::message::Message;
use crate::token::WorkToken;

/// Ends activities. A second ack of a token must fail although the first one's answer was lost, so outcomes are kept.
pub(crate) struct AckWork {
    channel: Channel,
    sql: Sql,
}

/// An activity that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub(crate) token: WorkToken,
    /// `None`: nobody is told.
    pub(crate) completion: Option<Message>,
}

impl AckWork {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> AckWork {
        AckWork { channel, sql: schema.sql(include_str!("../../sql/ack_work.sql")) }
    }
}

impl Flight for AckWork {
    type Member = Done;
    type Key = (String, i64);
    type Outcome = Fenced;
    const KEPT: bool = true;

    fn key(&self, done: &Done) -> (String, i64) {
        (done.token.instance.clone(), done.token.id)
    }

    fn bytes(&self, done: &Done) -> usize {
        done.token.instance.len() + done.completion.as_ref().map_or(0, Message::bytes)
    }

    fn rings(&self, done: &Done, outcome: Option<&Fenced>) -> Vec<Ring> {
        let tells = done.completion.is_some() && outcome.is_none_or(|outcome| *outcome == Fenced::Done);
        tells.then(|| self.channel.ring()).into_iter().collect()
    }

    async fn fly(&self, conn: &mut PgConnection, boarded: &Boarded<'_, Done>) -> pg::Result<Landed> {
        let done = &boarded.members;
        let instances: Vec<&str> = done.iter().map(|done| done.token.instance.as_str()).collect();
        let ids: Vec<i64> = done.iter().map(|done| done.token.id).collect();
        let fences: Vec<Uuid> = done.iter().map(|done| done.token.fence).collect();
        let completions = || done.iter().map(|done| done.completion.as_ref());
        let receivers: Vec<Option<&str>> = completions().map(|told| told.map(|told| told.instance.as_str())).collect();
        let items: Vec<Option<&str>> = completions().map(|told| told.map(|told| told.item.as_str())).collect();
        let query = boarded.query(&self.sql).bind(instances).bind(ids).bind(fences).bind(receivers).bind(items);
        Landed::of(&query.fetch_one(conn).await?)
    }

    fn outcome(&self, _: &Done, text: &str) -> Fenced {
        Fenced::of(text)
    }
}
