//! Turns that are given up.

use std::time::Duration;

use pg::{Schema, Sql};
use sqlx::PgConnection;
use uuid::Uuid;
use wake::{Boarded, Channel, Flight, Landed, Ring};

use super::{Fenced, repeated};
use crate::message::millis;
use crate::token::TurnToken;

/// Gives turns up. The token fences it, and being given up twice changes nothing, so outcomes are not kept.
pub(crate) struct AbandonTurn {
    channel: Channel,
    sql: Sql,
}

/// A turn that is given up.
#[derive(Debug, Clone)]
pub(crate) struct GivenUpTurn {
    pub(crate) token: TurnToken,
    /// `None`: its messages are visible as before.
    pub(crate) delay: Option<Duration>,
    pub(crate) uncounted: bool,
}

impl AbandonTurn {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> AbandonTurn {
        AbandonTurn { channel, sql: schema.sql(include_str!("../../sql/abandon_instances.sql")) }
    }
}

impl Flight for AbandonTurn {
    type Member = GivenUpTurn;
    type Key = String;
    type Outcome = Fenced;
    const KEPT: bool = false;

    fn key(&self, turn: &GivenUpTurn) -> String {
        turn.token.instance.clone()
    }

    fn rings(&self, turn: &GivenUpTurn, outcome: Option<&Fenced>) -> Vec<Ring> {
        if outcome.is_some_and(|outcome| *outcome != Fenced::Done) {
            return Vec::new();
        }
        // Messages that came while it was leased are free at once, whatever the delay of its own.
        let later = turn.delay.map(|delay| self.channel.ring().after(delay));
        [self.channel.ring()].into_iter().chain(later).collect()
    }

    async fn fly(&self, conn: &mut PgConnection, boarded: &Boarded<'_, GivenUpTurn>) -> pg::Result<Landed> {
        let turns = &boarded.members;
        let instances: Vec<&str> = turns.iter().map(|turn| turn.token.instance.as_str()).collect();
        let fences: Vec<Uuid> = turns.iter().map(|turn| turn.token.fence).collect();
        let again = repeated(fences.iter().copied().map(Some));
        let delays: Vec<Option<i64>> = turns.iter().map(|turn| turn.delay.map(millis)).collect();
        let uncounted: Vec<bool> = turns.iter().map(|turn| turn.uncounted).collect();
        let query = boarded.query(&self.sql).bind(instances).bind(fences).bind(again).bind(delays).bind(uncounted);
        Landed::of(&query.fetch_one(conn).await?)
    }

    fn outcome(&self, _: &GivenUpTurn, text: &str) -> Fenced {
        Fenced::of(text)
    }
}
