//! How what a person does travels: alone, in a transaction of its own, whose outcome is known whatever happens to the connection.

use std::sync::Arc;

use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch, WriterOptions};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Cancelled, Obstacle, Operated, Who, steps_before, tasks_before};
use crate::catalog::CachedTemplate;
use crate::error::{Error, Result};
use crate::event_driven::{Cause, News};
use crate::flow::Flow;
use crate::name::{of_namespace, of_step};
use crate::stored::{step_state, task_state};
use crate::task::decision::{Chosen, Inputs};
use crate::task::state::{StepState, TaskState};

/// Operations under way at a time: as many as a small part of a pool, because an operation of many is no emergency.
pub(super) const CONCURRENCY: usize = 4;

/// What is to be done.
#[derive(Clone)]
pub(crate) enum Act {
    Step(StepAct),
    Task(TaskAct),
}

/// With a step.
#[derive(Clone)]
pub(crate) struct StepAct {
    pub(super) task: Uuid,
    pub(super) kept: Arc<CachedTemplate>,
    pub(super) place: usize,
    pub(super) part: Option<i32>,
    /// Its public name.
    pub(super) step: String,
    /// What is done is called.
    pub(super) name: &'static str,
    pub(super) to: StepState,
    pub(super) body: Option<String>,
    pub(super) chosen: Chosen,
    pub(super) inputs: Inputs,
}

/// With a task.
#[derive(Clone)]
pub(crate) struct TaskAct {
    pub(super) task: Uuid,
    pub(super) to: TaskState,
}

impl StepAct {
    fn outcome(&self) -> &'static str {
        match self.to {
            StepState::Complete => "completed_manually",
            StepState::ResolvedManually => "resolved_manually",
            _ => "reset",
        }
    }
}

impl Act {
    fn task(&self) -> Uuid {
        match self {
            Act::Step(act) => act.task,
            Act::Task(act) => act.task,
        }
    }

    /// The answer that an outcome of the statement stands for: see `functions/operate_step.sql` and `functions/end_task.sql`. `None`: it is not known.
    fn answer(&self, text: &str) -> Option<Answer> {
        let task = self.task();
        let mut words = text.split(' ');
        let answer = match (words.next()?, self) {
            ("no_task", _) => Answer::Refused(Error::NoTask { task }),
            ("no_step", Act::Step(act)) => Answer::Refused(Error::NoStep { task, step: act.step.clone() }),
            ("following_begun", _) => self.refused(Obstacle::Begun),
            ("already_decided", _) => self.refused(Obstacle::Decided),
            ("step", Act::Step(_)) => self.refused(Obstacle::Step(step_state(words.next()?)?)),
            ("task", Act::Step(_)) => self.refused(Obstacle::Task(task_state(words.next()?)??)),
            ("task", Act::Task(_)) => self.refused(Obstacle::Itself(task_state(words.next()?)??)),
            ("done", Act::Step(act)) => {
                let (before, state) = (step_state(words.next()?)?, step_state(words.next()?)?);
                let task_state = task_state(words.next()?)?;
                let step_name = act.step.clone();
                let operated = Operated { task_uuid: task, step_name, before, state, task_state };
                let (mut readied, mut anything) = (false, false);
                for word in words.by_ref() {
                    match word {
                        "readied" => readied = true,
                        "any_ready" => anything = true,
                        _ => return None,
                    }
                }
                Answer::Operated { operated, readied, anything }
            }
            (ended @ ("ended" | "repeated"), Act::Task(act)) => {
                let cancelled_steps = words.next()?.parse().ok()?;
                let repeated = ended == "repeated";
                Answer::Cancelled(Cancelled { task_uuid: task, state: act.to, cancelled_steps, repeated })
            }
            _ => return None,
        };
        words.next().is_none().then_some(answer)
    }

    fn refused(&self, obstacle: Obstacle) -> Answer {
        let task = self.task();
        let (step, operation) = match self {
            Act::Step(act) => (Some(act.step.clone()), act.name),
            Act::Task(TaskAct { to: TaskState::Cancelled, .. }) => (None, "cancel"),
            Act::Task(_) => (None, "resolve"),
        };
        Answer::Refused(Error::NotAllowed { task, step, operation, obstacle })
    }
}

/// What became of it.
pub(crate) enum Answer {
    /// A step, whether what follows became ready, and whether anything of the task may have.
    Operated {
        operated: Operated,
        readied: bool,
        anything: bool,
    },
    Cancelled(Cancelled),
    Refused(Error),
}

impl Answer {
    pub(super) fn operated(self) -> Result<Operated> {
        match self {
            Answer::Operated { operated, .. } => Ok(operated),
            Answer::Refused(error) => Err(error),
            Answer::Cancelled(_) => Err(sqlx::Error::RowNotFound.into()),
        }
    }

    pub(super) fn cancelled(self) -> Result<Cancelled> {
        match self {
            Answer::Cancelled(cancelled) => Ok(cancelled),
            Answer::Refused(error) => Err(error),
            Answer::Operated { .. } => Err(sqlx::Error::RowNotFound.into()),
        }
    }
}

impl Flow {
    pub(super) async fn act(&self, act: Act, who: &Who, manner: Manner) -> Result<Answer> {
        self.inner.follow_namespaces().await;
        Ok(self.inner.acts.submit(Write { act, who: who.clone(), manner }).await?)
    }
}

/// Whether it is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Earnest,
    /// It only says what would become of it.
    Preview,
}

/// An operation on its way.
pub(crate) struct Write {
    act: Act,
    who: Who,
    manner: Manner,
}

/// Sends operations.
pub(crate) struct Operations {
    news: Arc<News>,
    channel: Channel,
    watch: Channel,
    overdue: Channel,
    operate: Sql,
    end: Sql,
}

impl Operations {
    pub(crate) fn new(
        schema: &Schema,
        news: Arc<News>,
        channel: Channel,
        watch: Channel,
        overdue: Channel,
    ) -> Operations {
        Operations {
            news,
            channel,
            watch,
            overdue,
            operate: schema.sql(reveille_pg::statement!("operate_step")),
            end: schema.sql(reveille_pg::statement!("end_task")),
        }
    }

    /// How they travel: each in a transaction of its own.
    pub(crate) fn alone(options: WriterOptions) -> WriterOptions {
        WriterOptions { max_writes: 1, concurrency: CONCURRENCY, ..options }
    }

    /// Who watches how long the task takes, if it may go on.
    fn limit(&self, act: &StepAct, answer: Option<&Answer>) -> Option<WakeUp> {
        if matches!(answer, Some(Answer::Operated { anything: false, .. })) {
            return None;
        }
        act.kept.template.lifecycle.first_limit().map(|limit| self.overdue.wake_up().after(limit))
    }

    /// Who waits for steps that this may have made ready.
    fn ready(&self, act: &StepAct, answer: Option<&Answer>) -> Option<WakeUp> {
        let template = &act.kept.template;
        let name = |place: &usize| of_step(&template.namespace, &template.steps[*place].name);
        let mut keys: Vec<String> = match answer {
            Some(Answer::Operated { anything: false, readied: true, .. }) => {
                template.steps[act.place].children.iter().map(name).collect()
            }
            Some(Answer::Operated { anything: false, .. }) => return None,
            _ => (0..template.steps.len()).map(|place| name(&place)).collect(),
        };
        keys.push(of_namespace(&template.namespace));
        Some(self.channel.wake_up_keys(keys.iter().map(String::as_str)))
    }
}

impl BatchedWrite for Operations {
    type Write = Write;
    type Key = Uuid;
    type Outcome = Answer;
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, write: &Write) -> Uuid {
        write.act.task()
    }

    fn bytes(&self, write: &Write) -> usize {
        let Act::Step(act) = &write.act else { return 100 };
        let inputs = act.inputs.iter().flatten().map(String::len).sum::<usize>();
        100 + act.body.as_ref().map_or(0, String::len) + inputs
    }

    fn wake_ups(&self, write: &Write, answer: Option<&Answer>) -> Vec<WakeUp> {
        if write.manner == Manner::Preview || matches!(answer, Some(Answer::Refused(_))) {
            return Vec::new();
        }
        let watch = self.watch.wake_up_keys([write.act.task().to_string().as_str()]);
        let (ready, limit) = match &write.act {
            Act::Step(act) => (self.ready(act, answer), self.limit(act, answer)),
            Act::Task(_) => (None, None),
        };
        [watch].into_iter().chain(ready).chain(limit).collect()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Write>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let [Write { act, who, manner }] = batch.writes[..] else { return Err(sqlx::Error::RowNotFound.into()) };
        let query = match act {
            Act::Step(act) => batch
                .query(&self.operate)
                .bind(act.task)
                .bind(act.place as i32)
                .bind(act.part)
                .bind(act.outcome())
                .bind(steps_before(act.to))
                .bind(&who.name)
                .bind(&who.reason)
                .bind(&act.body)
                .bind(&act.chosen)
                .bind(&act.inputs)
                .bind(act.kept.template.lifecycle.limit_ms()),
            Act::Task(act) => batch
                .query(&self.end)
                .bind(act.task)
                .bind(act.to.name())
                .bind(tasks_before(act.to))
                .bind(&who.name)
                .bind(&who.reason),
        };
        batch.result(self, &query.bind(*manner == Manner::Preview).fetch_one(conn).await?)
    }

    fn decode(&self, write: &Write, text: &str) -> Option<Answer> {
        write.act.answer(text)
    }

    fn committed(&self, write: &Write, answer: &Answer) {
        if write.manner == Manner::Earnest {
            match (&write.act, answer) {
                (Act::Step(act), Answer::Operated { .. }) => {
                    self.news.tell(Some(&act.kept.template.namespace), act.task, Cause::Operated);
                }
                (Act::Task(act), Answer::Cancelled(_)) => self.news.tell(None, act.task, Cause::StepReport),
                _ => {}
            }
        }
    }
}
