//! Schedule ticks.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::layer::StoreLayer;
use mq_core::{
    Cadence, DueSchedules, JobId, JobSpec, JobState, ListFilter, MemoryStore, NewSchedule, RawJson,
    Result, ScheduleFilter, ScheduleKey, ScheduleOps, ScheduleRecord, StoreError, StoreHandle,
    Tick, Timestamp,
};
use mq_testkit::FaultyStore;
use mq_worker::{JobContext, Worker};
use support::logs::Logs;
use support::*;
use tokio::sync::mpsc;
use tokio::time::Instant;

fn at(offset: std::time::Duration) -> Timestamp {
    Timestamp::from_millis(BEGIN)
        .unwrap()
        .saturating_add(offset)
}

/// A schedule of [`Work`] with this interval, first due so long after the
/// beginning.
async fn schedule(
    fixture: &Fixture,
    key: &str,
    every: std::time::Duration,
    first: std::time::Duration,
) {
    let schedule = NewSchedule {
        key: key.into(),
        cadence: Cadence::Every(every),
        spec: spec(&Work { number: 1 }),
        group: None,
        next_run_at: at(first),
    };
    fixture.plain().upsert_schedule(schedule).await.unwrap();
}

async fn jobs(fixture: &Fixture) -> Vec<JobId> {
    use mq_core::InspectOps;
    let filter = ListFilter {
        direction: mq_core::Direction::Ascending,
        limit: Some(1_000),
        ..ListFilter::default()
    };
    let page = fixture.plain().list(filter).await.unwrap();
    page.items.into_iter().map(|job| job.id).collect()
}

#[tokio::test(start_paused = true)]
async fn each_slot_enqueues_one_job_at_its_time_whatever_the_number_of_workers() {
    let fixture = fixture().await;
    schedule(&fixture, "tick", secs(10), millis(2_500)).await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let start = async || {
        let told = told.clone();
        fixture
            .worker()
            .register(move |_job: Work, ctx: JobContext| {
                told.send((ctx.scheduled_for(), ctx.id().clone(), Instant::now()))
                    .unwrap();
                async move { Ok(1) }
            })
            .start()
            .await
            .unwrap()
    };
    let begun = Instant::now();
    let workers = [start().await, start().await, start().await];
    for slot in 0..10 {
        let offset = millis(2_500) + secs(10) * slot;
        let (scheduled_for, id, started) = heard.recv().await.unwrap();
        assert_eq!(scheduled_for, Some(at(offset)));
        assert_eq!(id, *format!("sched/tick/{}", at(offset).as_millis()));
        // Exactly at the slot, but for the millisecond that timers round up to.
        let late = started - begun - offset;
        assert!(late <= millis(2), "{late:?}");
    }
    assert!(heard.try_recv().is_err());
    let decided: u64 = workers
        .iter()
        .map(|worker| worker.stats().slots_decided)
        .sum();
    assert_eq!(decided, 10);
    for worker in workers {
        worker.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn slots_missed_while_nothing_ran_collapse_into_one_run() {
    let fixture = fixture().await;
    schedule(&fixture, "tick", secs(10), secs(3)).await;
    tokio::time::sleep(secs(1_000)).await;
    let worker = fixture
        .worker()
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(5)).await;
    let expected = [
        // The first missed slot, then the next one on the grid.
        format!("sched/tick/{}", at(secs(3)).as_millis()),
        format!("sched/tick/{}", at(secs(1_003)).as_millis()),
    ];
    assert_eq!(jobs(&fixture).await, expected.map(JobId::from));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_made_while_the_worker_sleeps_is_seen_within_the_interval() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .schedule_interval(secs(4))
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(1)).await;
    schedule(&fixture, "soon", secs(1_000), secs(2)).await;
    let id = JobId::from(format!("sched/soon/{}", at(secs(2)).as_millis()));
    tokio::time::sleep(secs(3) + millis(10)).await;
    let job = fixture.finished(&id).await;
    assert_eq!(job.state, JobState::Completed);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_cron_schedule_runs_at_its_wall_clock_times() {
    let fixture = fixture().await;
    let schedule = NewSchedule {
        key: "hourly".into(),
        cadence: Cadence::Cron {
            expression: "30 * * * *".into(),
            tz: None,
        },
        spec: spec(&Work { number: 1 }),
        group: None,
        next_run_at: at(secs(1_800)),
    };
    fixture.plain().upsert_schedule(schedule).await.unwrap();
    let worker = fixture
        .worker()
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(3 * 3_600)).await;
    let slots: Vec<_> = (0..3)
        .map(|hour| at(secs(3_600 * hour + 1_800)).as_millis())
        .map(|millis| JobId::from(format!("sched/hourly/{millis}")))
        .collect();
    assert_eq!(jobs(&fixture).await, slots);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_tick_whose_answer_was_lost_is_not_decided_twice() {
    let fixture = fixture().await;
    schedule(&fixture, "tick", secs(10), secs(1)).await;
    let faults = [Fault::After, Fault::Before];
    fixture.faults.script(Operation::TickSchedule, faults);
    let worker = fixture
        .worker()
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(35)).await;
    let slots = [1, 11, 21, 31].map(|slot| {
        let millis = at(secs(slot)).as_millis();
        JobId::from(format!("sched/tick/{millis}"))
    });
    assert_eq!(jobs(&fixture).await, slots);
    worker.shutdown().await;
}

/// The jobs of the schedule "sound" within a minute: every 10 s from 2 s on.
fn sound_slots() -> Vec<JobId> {
    (0..6)
        .map(|slot| at(secs(10 * slot + 2)).as_millis())
        .map(|millis| JobId::from(format!("sched/sound/{millis}")))
        .collect()
}

/// A store with schedules in it that this version cannot read.
struct Hurt(MemoryStore);

#[mq_core::async_trait]
impl StoreLayer for Hurt {
    type Inner = MemoryStore;
    fn inner(&self) -> &MemoryStore {
        &self.0
    }
    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        let mut due = ScheduleOps::due_schedules(&self.0, limit).await?;
        due.due.iter_mut().for_each(break_cadence);
        Ok(due)
    }
    async fn list_schedules(&self, filter: ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        let mut schedules = ScheduleOps::list_schedules(&self.0, filter).await?;
        schedules.iter_mut().for_each(break_cadence);
        Ok(schedules)
    }
}

fn break_cadence(schedule: &mut ScheduleRecord) {
    if schedule.key.starts_with("broken") {
        schedule.cadence = Cadence::Cron {
            expression: "every full moon".into(),
            tz: None,
        };
    }
}

async fn hurt(fixture: &Fixture) -> (Faults, StoreHandle) {
    let faults = Faults::none();
    let hurt = FaultyStore::new(Hurt(fixture.plain().clone()), &faults);
    (faults, StoreHandle::bind(hurt).await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_broken_schedule_never_stops_the_others_and_is_logged_once() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    schedule(&fixture, "broken", secs(10), secs(1)).await;
    schedule(&fixture, "sound", secs(10), secs(2)).await;
    // Its job has an id that no store takes.
    let mut refused = JobSpec::new("work", "default", RawJson::null());
    refused
        .metadata
        .insert("filler".into(), "x".repeat(64 * 1_024 - 6));
    let refused = NewSchedule {
        key: ScheduleKey::from("refused"),
        cadence: Cadence::Every(secs(10)),
        spec: refused,
        group: None,
        next_run_at: at(secs(1)),
    };
    fixture.plain().upsert_schedule(refused).await.unwrap();
    let (_, handle) = hurt(&fixture).await;
    let worker = Worker::builder(handle)
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(60)).await;
    assert_eq!(jobs(&fixture).await, sound_slots());
    let errors = logs.with("the schedule is broken");
    assert_eq!(errors.len(), 2, "{errors:?}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn more_due_schedules_than_a_page_holds_are_all_decided_at_once() {
    let fixture = fixture().await;
    for number in 0..600 {
        schedule(&fixture, &format!("s{number}"), secs(86_400), secs(1)).await;
    }
    let worker = fixture
        .worker()
        .schedule_interval(secs(3_600))
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(2)).await;
    assert_eq!(jobs(&fixture).await.len(), 600);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_page_full_of_broken_schedules_neither_hides_the_others_nor_makes_the_worker_spin() {
    let fixture = fixture().await;
    for number in 0..260 {
        schedule(&fixture, &format!("broken{number}"), secs(10), secs(1)).await;
    }
    schedule(&fixture, "sound", secs(10), secs(2)).await;
    let (faults, handle) = hurt(&fixture).await;
    let worker = Worker::builder(handle)
        .schedule_interval(secs(5))
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(60)).await;
    let rounds = faults.calls(Operation::DueSchedules);
    assert!((12..=25).contains(&rounds), "{rounds}");
    assert_eq!(jobs(&fixture).await, sound_slots());
    worker.shutdown().await;
}

/// A store that refuses to decide some schedules, though not for their sake.
struct Refusing(MemoryStore);

#[mq_core::async_trait]
impl StoreLayer for Refusing {
    type Inner = MemoryStore;
    fn inner(&self) -> &MemoryStore {
        &self.0
    }
    async fn tick_schedule(&self, tick: Tick) -> Result<bool> {
        if tick.key.as_str().starts_with("refused") {
            return Err(StoreError::Backend {
                message: "a row is damaged".to_owned(),
                source: None,
            });
        }
        ScheduleOps::tick_schedule(&self.0, tick).await
    }
}

#[tokio::test(start_paused = true)]
async fn no_number_of_refused_schedules_stops_the_others() {
    for refused in [5, 250] {
        let (logs, _guard) = Logs::collect();
        let fixture = fixture().await;
        for number in 0..refused {
            schedule(&fixture, &format!("refused{number}"), secs(10), secs(1)).await;
        }
        schedule(&fixture, "sound", secs(10), secs(2)).await;
        let store = Refusing(fixture.plain().clone());
        let handle: StoreHandle = StoreHandle::bind(store).await.unwrap();
        let worker = Worker::builder(handle)
            .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
            .start()
            .await
            .unwrap();
        tokio::time::sleep(secs(60)).await;
        assert_eq!(jobs(&fixture).await, sound_slots());
        assert_eq!(logs.with("refuses to decide").len(), refused);
        worker.shutdown().await;
    }
}
