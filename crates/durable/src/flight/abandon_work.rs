//! Activities that are given up.

use std::time::Duration;

use pg::{Schema, Sql};
use sqlx::PgConnection;
use uuid::Uuid;
use wake::{Boarded, Channel, Flight, Landed, Ring};

use super::{Fenced, repeated};
use crate::message::millis;
use crate::token::WorkToken;

/// Gives activities up. The token fences it, and being given up twice changes nothing, so outcomes are not kept.
pub(crate) struct AbandonWork {
    channel: Channel,
    sql: Sql,
}

/// An activity that is given up.
#[derive(Debug, Clone)]
pub(crate) struct GivenUpWork {
    pub(crate) token: WorkToken,
    /// `None`: it is visible as before.
    pub(crate) delay: Option<Duration>,
    pub(crate) uncounted: bool,
}

impl AbandonWork {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> AbandonWork {
        AbandonWork { channel, sql: schema.sql(include_str!("../../sql/abandon_work.sql")) }
    }
}

impl Flight for AbandonWork {
    type Member = GivenUpWork;
    type Key = (String, i64);
    type Outcome = Fenced;
    const KEPT: bool = false;

    fn key(&self, work: &GivenUpWork) -> (String, i64) {
        (work.token.instance.clone(), work.token.id)
    }

    fn rings(&self, work: &GivenUpWork, outcome: Option<&Fenced>) -> Vec<Ring> {
        let visible = outcome.is_none_or(|outcome| *outcome == Fenced::Done);
        visible.then(|| self.channel.ring().after(work.delay.unwrap_or_default())).into_iter().collect()
    }

    async fn fly(&self, conn: &mut PgConnection, boarded: &Boarded<'_, GivenUpWork>) -> pg::Result<Landed> {
        let works = &boarded.members;
        let instances: Vec<&str> = works.iter().map(|work| work.token.instance.as_str()).collect();
        let ids: Vec<i64> = works.iter().map(|work| work.token.id).collect();
        let fences: Vec<Uuid> = works.iter().map(|work| work.token.fence).collect();
        let again = repeated(fences.iter().copied().map(Some));
        let delays: Vec<Option<i64>> = works.iter().map(|work| work.delay.map(millis)).collect();
        let uncounted: Vec<bool> = works.iter().map(|work| work.uncounted).collect();
        let query =
            boarded.query(&self.sql).bind(instances).bind(ids).bind(fences).bind(again).bind(delays).bind(uncounted);
        Landed::of(&query.fetch_one(conn).await?)
    }

    fn outcome(&self, _: &GivenUpWork, text: &str) -> Fenced {
        Fenced::of(text)
    }
}
