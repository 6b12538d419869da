//! Turns and activities that are given up.

use std::sync::Arc;
use std::time::Duration;

use pg::{Schema, Sql};
use sqlx::PgConnection;
use uuid::Uuid;
use wake::{Boarded, Channel, Flight, Floors, Landed, Ring};

use super::{Fenced, repeated};
use crate::message::millis;
use crate::token::{TurnToken, WorkToken};
use crate::turn::TurnKey;
use crate::work::WorkKey;

/// Gives up leases of one kind. The token fences it, and being given up twice changes nothing, so outcomes are not kept.
pub(crate) struct Abandon {
    kind: Kind,
    /// Tells the claims of this process that something old is free again.
    forget: Box<dyn Fn() + Send + Sync>,
    channel: Channel,
    sql: Sql,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Turns,
    Work,
}

/// A lease that is given up.
#[derive(Debug, Clone)]
pub(crate) struct GivenUp {
    instance: String,
    /// Zero for a turn.
    id: i64,
    fence: Uuid,
    delay: Option<Duration>,
    uncounted: bool,
}

impl GivenUp {
    /// Visible again after `delay`; `None`: as before, in its old place. `uncounted`: as if it had never been fetched.
    pub(crate) fn turn(token: TurnToken, delay: Option<Duration>, uncounted: bool) -> GivenUp {
        GivenUp { instance: token.instance, id: 0, fence: token.fence, delay, uncounted }
    }

    /// As [`turn`](Self::turn).
    pub(crate) fn work(token: WorkToken, delay: Option<Duration>, uncounted: bool) -> GivenUp {
        GivenUp { instance: token.instance, id: token.id, fence: token.fence, delay, uncounted }
    }
}

impl Abandon {
    pub(crate) fn turns(schema: &Schema, channel: Channel, floors: Arc<Floors<TurnKey>>) -> Abandon {
        let sql = schema.sql(include_str!("../../sql/abandon_instances.sql"));
        Abandon { kind: Kind::Turns, forget: Box::new(move || floors.forget()), channel, sql }
    }

    pub(crate) fn work(schema: &Schema, channel: Channel, floors: Arc<Floors<WorkKey>>) -> Abandon {
        let sql = schema.sql(include_str!("../../sql/abandon_work.sql"));
        Abandon { kind: Kind::Work, forget: Box::new(move || floors.forget()), channel, sql }
    }
}

impl Flight for Abandon {
    type Member = GivenUp;
    type Key = (String, i64);
    type Outcome = Fenced;
    const KEPT: bool = false;

    fn key(&self, given_up: &GivenUp) -> (String, i64) {
        (given_up.instance.clone(), given_up.id)
    }

    fn rings(&self, given_up: &GivenUp, outcome: Option<&Fenced>) -> Vec<Ring> {
        if outcome.is_some() {
            // Before the ring: whoever it wakes reads from the old place on. However it ended: an attempt before may have done it.
            (self.forget)();
        }
        if outcome.is_some_and(|outcome| *outcome != Fenced::Done) {
            return Vec::new();
        }
        let due = self.channel.ring().after(given_up.delay.unwrap_or_default());
        // Messages that came while an instance was leased are free at once, whatever the delay of the turn's own.
        let freed = (self.kind == Kind::Turns && given_up.delay.is_some()).then(|| self.channel.ring());
        [due].into_iter().chain(freed).collect()
    }

    async fn fly(&self, conn: &mut PgConnection, boarded: &Boarded<'_, GivenUp>) -> pg::Result<Landed> {
        let leases = &boarded.members;
        let fences: Vec<Uuid> = leases.iter().map(|lease| lease.fence).collect();
        let again = repeated(fences.iter().copied());
        let mut query =
            boarded.query(&self.sql).bind(leases.iter().map(|lease| lease.instance.as_str()).collect::<Vec<_>>());
        if self.kind == Kind::Work {
            query = query.bind(leases.iter().map(|lease| lease.id).collect::<Vec<_>>());
        }
        let query = query
            .bind(fences)
            .bind(again)
            .bind(leases.iter().map(|lease| lease.delay.map(millis)).collect::<Vec<_>>())
            .bind(leases.iter().map(|lease| lease.uncounted).collect::<Vec<_>>());
        Landed::of(&query.fetch_one(conn).await?)
    }

    fn outcome(&self, _: &GivenUp, text: &str) -> Fenced {
        Fenced::of(text)
    }
}
