//! The tables as diesel knows them, to read jobs beside a program's own.
//!
//! Reads only: what is written past the store does not keep its promises. The
//! schema is the connection's `search_path`'s; with one of its own, set that.
//!
//! ```no_run
//! use diesel::{ExpressionMethods, QueryDsl, QueryResult};
//! use diesel_async::{AsyncPgConnection, RunQueryDsl};
//! use mq_diesel_pg::schema::mq_jobs;
//!
//! /// Ids and reasons of failed jobs, the newest first.
//! async fn failed(connection: &mut AsyncPgConnection) -> QueryResult<Vec<(String, Option<String>)>> {
//!     mq_jobs::table
//!         .filter(mq_jobs::state.eq("failed"))
//!         .order(mq_jobs::finished_at.desc())
//!         .select((mq_jobs::id, mq_jobs::failed_reason))
//!         .load(connection)
//!         .await
//! }
//! ```

diesel::table! {
    /// Jobs, as records; a view over the parts they are stored in.
    mq_jobs (id) {
        /// The id.
        id -> Text,
        /// The kind of job.
        name -> Text,
        /// The queue it waits in.
        queue -> Text,
        /// The job's data.
        payload -> Json,
        /// Labels.
        metadata -> Jsonb,
        /// `waiting`, `delayed`, `active`, `waiting-children`, `completed`, `failed` or `cancelled`.
        state -> Text,
        /// Higher runs first.
        priority -> Integer,
        /// How many runs may fail.
        attempts_max -> BigInt,
        /// Attempts consumed of the current budget.
        attempts_made -> Integer,
        /// Ledger entries ever written.
        attempts_recorded -> Integer,
        /// How often a lock expired in the current budget.
        stalled_count -> Integer,
        /// How long to wait between attempts.
        backoff -> Nullable<Json>,
        /// How long it is kept after its end.
        keep -> Nullable<Json>,
        /// How long one run may take, in milliseconds.
        timeout_ms -> Nullable<BigInt>,
        /// Whether a cancel waits for the handler to notice.
        cancel_requested -> Bool,
        /// The dedupe key it was enqueued under.
        dedupe_key -> Nullable<Text>,
        /// The trace its producer was in.
        trace -> Nullable<Json>,
        /// The flow it is a child of.
        parent -> Nullable<Json>,
        /// The flow it is the parent of.
        flow -> Nullable<Json>,
        /// Its arrival number.
        seq -> BigInt,
        /// When it may run.
        run_at -> Timestamptz,
        /// When it was inserted.
        enqueued_at -> Timestamptz,
        /// When it was last claimed.
        processed_at -> Nullable<Timestamptz>,
        /// When it ended.
        finished_at -> Nullable<Timestamptz>,
        /// How it ended.
        exit -> Nullable<Json>,
        /// Why the store itself ended it.
        failed_reason -> Nullable<Text>,
        /// What the handler last reported.
        progress -> Nullable<Json>,
        /// When its lock expires.
        lock_expires_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// What a job's producer asked for: the table a program's own generated
    /// columns belong to.
    mq_job (id) {
        /// The id.
        id -> Text,
        /// The kind of job.
        name -> Text,
        /// The queue it waits in.
        queue -> Text,
        /// The job's data.
        payload -> Json,
        /// Labels.
        metadata -> Jsonb,
        /// Higher runs first.
        priority -> Integer,
        /// How many runs may fail.
        attempts_max -> BigInt,
        /// When it was inserted.
        enqueued_at -> Timestamptz,
    }
}

diesel::table! {
    /// The ledgers: what became of each run; a view.
    mq_job_attempts (job_id, attempt) {
        /// The job.
        job_id -> Text,
        /// The entry's number.
        attempt -> Integer,
        /// When the run began.
        started_at -> Nullable<Timestamptz>,
        /// When the entry was written.
        finished_at -> Timestamptz,
        /// What became of the run.
        outcome -> Text,
        /// What the handler returned.
        exit -> Nullable<Json>,
    }
}

diesel::table! {
    /// Schedules.
    mq_schedules (key) {
        /// The key.
        key -> Text,
        /// The cron expression, if it has one.
        cron -> Nullable<Text>,
        /// The zone it is read in.
        tz -> Nullable<Text>,
        /// The interval in milliseconds, if it has no cron expression.
        every_ms -> Nullable<BigInt>,
        /// The kind of job it enqueues.
        job_name -> Text,
        /// The queue it enqueues into.
        queue -> Text,
        /// The set of schedules it is declared with.
        group_name -> Nullable<Text>,
        /// The next slot.
        next_run_at -> Timestamptz,
        /// Raised by each upsert.
        version -> BigInt,
    }
}

diesel::table! {
    /// Settings of queues that have any.
    mq_queue_control (queue) {
        /// The queue.
        queue -> Text,
        /// Whether it yields jobs.
        paused -> Bool,
        /// How many of its jobs may be active at once.
        max_active -> Nullable<BigInt>,
        /// How many may start in `rate_per_ms`.
        rate_count -> Nullable<BigInt>,
        /// In how long, in milliseconds.
        rate_per_ms -> Nullable<BigInt>,
    }
}

diesel::table! {
    /// Workers that have reported.
    mq_workers (id) {
        /// The worker's id.
        id -> Text,
        /// The machine it runs on.
        host -> Text,
        /// Its program's version.
        version -> Text,
        /// The queues it takes from.
        queues -> Array<Text>,
        /// How many handlers were running.
        in_flight -> BigInt,
        /// When it started.
        started_at -> Timestamptz,
        /// When it last reported.
        last_seen_at -> Timestamptz,
    }
}

diesel::allow_tables_to_appear_in_same_query!(mq_jobs, mq_job, mq_job_attempts);

/// Lets queries name [`mq_jobs`] beside tables of a program's own: what
/// diesel's `allow_tables_to_appear_in_same_query!` does within one crate.
///
/// ```
/// use diesel::prelude::*;
/// use mq_diesel_pg::schema::mq_jobs;
///
/// diesel::table! {
///     orders (id) {
///         id -> Integer,
///         job_id -> Text,
///     }
/// }
/// mq_diesel_pg::allow_queries_with_jobs!(orders);
///
/// let open_orders = orders::table
///     .inner_join(mq_jobs::table.on(mq_jobs::id.eq(orders::job_id)))
///     .filter(mq_jobs::state.ne("completed"))
///     .select((orders::id, mq_jobs::state));
/// # let _ = diesel::debug_query::<diesel::pg::Pg, _>(&open_orders);
/// ```
#[macro_export]
macro_rules! allow_queries_with_jobs {
    ($($table:ident),+ $(,)?) => {$(
        impl ::diesel::query_source::TableNotEqual<$table::table>
            for $crate::schema::mq_jobs::table
        {
        }
        impl ::diesel::query_source::TableNotEqual<$crate::schema::mq_jobs::table>
            for $table::table
        {
        }
    )+};
}
