//! Schedules: jobs that come again.

use mq_core::{
    DueSchedules, NewSchedule, Result, ScheduleFilter, ScheduleKey, ScheduleOps, ScheduleRecord,
    StoreError, Tick, async_trait,
};

use crate::RedisStore;

fn unsupported(operation: &'static str) -> StoreError {
    StoreError::Unsupported {
        operation,
        remedy: "this version of the Redis store does not serve it yet",
    }
}

#[async_trait]
impl ScheduleOps for RedisStore {
    async fn upsert_schedule(&self, _schedule: NewSchedule) -> Result<ScheduleRecord> {
        Err(unsupported("upsert_schedule"))
    }

    async fn remove_schedule(&self, _key: &ScheduleKey) -> Result<bool> {
        Err(unsupported("remove_schedule"))
    }

    async fn list_schedules(&self, _filter: ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        Err(unsupported("list_schedules"))
    }

    async fn due_schedules(&self, _limit: u32) -> Result<DueSchedules> {
        Err(unsupported("due_schedules"))
    }

    async fn tick_schedule(&self, _tick: Tick) -> Result<bool> {
        Err(unsupported("tick_schedule"))
    }
}
