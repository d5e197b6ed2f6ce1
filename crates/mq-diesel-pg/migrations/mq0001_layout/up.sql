-- The layout of an mq store, version 1. See docs/decisions/0012-postgres-layout.md.
--
-- A job is one row of mq_job, written once, and one row of the small table of
-- the state it is in, which moves with it. Read mq_jobs; write through the store.

-- One row: what a store checks when it opens.
CREATE TABLE mq_meta (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    layout integer NOT NULL,
    store_name text COLLATE "C"
);
INSERT INTO mq_meta (layout) VALUES (1);

-- Arrival numbers, and versions of schedules.
CREATE SEQUENCE mq_seq AS bigint;

-- What the producer asked for.
CREATE TABLE mq_job (
    id text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    payload json NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    priority integer NOT NULL DEFAULT 0,
    attempts_max bigint NOT NULL DEFAULT 1,
    backoff json,
    keep json,
    timeout_ms bigint,
    dedupe_key text COLLATE "C",
    trace json,
    parent json,
    enqueued_at timestamptz NOT NULL
);
CREATE INDEX mq_job_listing ON mq_job (enqueued_at DESC, id DESC);
CREATE INDEX mq_job_metadata ON mq_job USING gin (metadata jsonb_path_ops)
    WHERE metadata <> '{}';

-- The tables of the states before the end begin with the same columns, so
-- that a row moves from one to another as it is.

-- Jobs that are `waiting`.
CREATE TABLE mq_ready (
    job_id text COLLATE "C" PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    seq bigint NOT NULL,
    run_at timestamptz NOT NULL,
    attempts_made integer NOT NULL DEFAULT 0,
    attempts_recorded integer NOT NULL DEFAULT 0,
    stalled_count integer NOT NULL DEFAULT 0,
    processed_at timestamptz,
    last_acked text COLLATE "C",
    progress json,
    watched boolean NOT NULL DEFAULT false,
    has_flow boolean NOT NULL DEFAULT false
);
CREATE INDEX mq_ready_order ON mq_ready (queue, name, priority DESC, seq);

-- Jobs that are `delayed`.
CREATE TABLE mq_delayed (LIKE mq_ready INCLUDING DEFAULTS, PRIMARY KEY (job_id));
CREATE INDEX mq_delayed_order ON mq_delayed (queue, name, run_at, seq);

-- Jobs that are `active`, with their locks.
CREATE TABLE mq_active (
    LIKE mq_ready INCLUDING DEFAULTS,
    token text COLLATE "C" NOT NULL,
    lock_expires_at timestamptz NOT NULL,
    cancel_requested boolean NOT NULL DEFAULT false,
    -- Whether the end of the job has more to do than to move its row.
    has_keep boolean NOT NULL,
    has_parent boolean NOT NULL,
    PRIMARY KEY (job_id)
) WITH (fillfactor = 80);
CREATE INDEX mq_active_expiry ON mq_active (lock_expires_at, job_id);

-- Flow parents that are `waiting-children`.
CREATE TABLE mq_parked (LIKE mq_ready INCLUDING DEFAULTS, PRIMARY KEY (job_id));

-- Jobs that are `completed`, `failed` or `cancelled`, with the last entry of
-- their ledger.
CREATE TABLE mq_finished (
    job_id text COLLATE "C" PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    finished_at timestamptz NOT NULL,
    run_at timestamptz NOT NULL,
    attempts_made integer NOT NULL,
    attempts_recorded integer NOT NULL,
    stalled_count integer NOT NULL,
    processed_at timestamptz,
    exit json,
    failed_reason text,
    last_acked text COLLATE "C",
    progress json,
    watched boolean NOT NULL,
    has_flow boolean NOT NULL,
    -- The ledger's last entry: what it was, whether it closed a run, and its
    -- exit where the job itself has none.
    outcome text COLLATE "C" NOT NULL,
    closed_run boolean NOT NULL,
    run_exit json,
    -- When its own `keep` has to be looked at by the sweep, if ever.
    sweep_at timestamptz
);
CREATE INDEX mq_finished_history ON mq_finished (name, state, finished_at, seq) INCLUDE (queue);
CREATE INDEX mq_finished_sweep ON mq_finished (sweep_at, seq) WHERE sweep_at IS NOT NULL;

-- The ledger but for the last entries of finished jobs.
CREATE TABLE mq_attempt (
    job_id text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    exit json,
    PRIMARY KEY (job_id, attempt)
);

-- What each claim call locked, so that it can be repeated with its token.
CREATE TABLE mq_claim (
    token text COLLATE "C" PRIMARY KEY,
    claimed_at timestamptz NOT NULL,
    job_ids text[] COLLATE "C" NOT NULL
);
CREATE INDEX mq_claim_age ON mq_claim (claimed_at);

-- Which job holds which dedupe key.
CREATE TABLE mq_dedupe (
    name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    -- The end of its window; none if it is held until the job ends.
    window_end timestamptz,
    -- The same once the job's record is gone and only the window keeps it.
    orphaned_until timestamptz,
    PRIMARY KEY (name, key)
);
CREATE INDEX mq_dedupe_orphans ON mq_dedupe (orphaned_until) WHERE orphaned_until IS NOT NULL;

-- Settings of queues that have any.
CREATE TABLE mq_queue_control (
    queue text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL DEFAULT false,
    max_active bigint,
    rate_count bigint,
    rate_per_ms bigint,
    -- When the next start would fall if all were spread evenly, in µs.
    next_even_start bigint NOT NULL DEFAULT 0
);

CREATE TABLE mq_schedules (
    key text COLLATE "C" PRIMARY KEY,
    cron text,
    tz text,
    every_ms bigint,
    job_name text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    payload json NOT NULL,
    metadata jsonb NOT NULL,
    priority integer NOT NULL,
    attempts_max bigint NOT NULL,
    backoff json,
    keep json,
    timeout_ms bigint,
    group_name text COLLATE "C",
    next_run_at timestamptz NOT NULL,
    version bigint NOT NULL,
    CHECK ((cron IS NULL) <> (every_ms IS NULL))
);
CREATE INDEX mq_schedules_due ON mq_schedules (next_run_at, key);

-- The state of each flow, by its parent's id; its row is the parent's lock
-- for all that has to do with its children.
CREATE TABLE mq_flow (
    flow_id text COLLATE "C" PRIMARY KEY,
    manifest text COLLATE "C" NOT NULL,
    fail_fast boolean NOT NULL,
    pending bigint NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    -- Once closed, a row that is stored as pending is cancelled, and owed.
    closed_at timestamptz,
    owed bigint NOT NULL DEFAULT 0,
    -- Since when a pending row has not been looked at, and when the sweep has
    -- to look at an owed one; never later than its rows say.
    reconcile_at timestamptz,
    cascade_at timestamptz,
    -- Among those of one instant, who was served last comes last.
    turn bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX mq_flow_reconcile ON mq_flow (reconcile_at, turn, flow_id)
    WHERE reconcile_at IS NOT NULL;
CREATE INDEX mq_flow_cascade ON mq_flow (cascade_at, turn, flow_id) WHERE cascade_at IS NOT NULL;

-- The children of a fan-out, under its mark, the manifest; rows under another
-- mark than their flow's do not count.
CREATE TABLE mq_flow_children (
    flow_id text COLLATE "C" NOT NULL,
    manifest text COLLATE "C" NOT NULL,
    child_key text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    store text COLLATE "C" NOT NULL,
    child_job_id text COLLATE "C" NOT NULL,
    spec json NOT NULL,
    payload_bytes bigint NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'pending',
    exit json,
    failed_reason text,
    cascaded boolean NOT NULL DEFAULT false,
    -- Since when a pending row has not been looked at. Once an owed row was,
    -- when it is to be again: that is after the close, all others are before.
    look_at timestamptz NOT NULL,
    PRIMARY KEY (flow_id, manifest, child_key)
) WITH (fillfactor = 80);
CREATE INDEX mq_flow_children_open ON mq_flow_children (flow_id, manifest, look_at, child_key)
    WHERE status = 'pending' AND NOT cascaded;

-- Marks whose rows may be left over: staged in pages that may never be
-- complete, or of parents that were removed.
CREATE TABLE mq_flow_purge (
    flow_id text COLLATE "C" NOT NULL,
    manifest text COLLATE "C" NOT NULL,
    since timestamptz NOT NULL,
    PRIMARY KEY (flow_id, manifest)
);

-- Reports to parents' stores, until they are delivered.
CREATE TABLE mq_flow_outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow_name text COLLATE "C" NOT NULL,
    parent_store text COLLATE "C" NOT NULL,
    flow_id text COLLATE "C" NOT NULL,
    manifest text COLLATE "C" NOT NULL,
    child_key text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    exit json,
    failed_reason text
);
CREATE INDEX mq_flow_outbox_child ON mq_flow_outbox (flow_id, child_key);

CREATE TABLE mq_workers (
    id text COLLATE "C" PRIMARY KEY,
    host text NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    in_flight bigint NOT NULL,
    started_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Rows come and go at the rate of the queue: dead ones are to be cleared long
-- before a fifth of the table is.
ALTER TABLE mq_ready SET (autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE mq_delayed SET (autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE mq_active SET (autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE mq_parked SET (autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE mq_claim SET (autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE mq_flow_outbox SET (autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Jobs, as records.
CREATE VIEW mq_jobs AS
SELECT
    j.id, j.name, j.queue, j.payload, j.metadata,
    CASE
        WHEN r.job_id IS NOT NULL THEN 'waiting'
        WHEN d.job_id IS NOT NULL THEN 'delayed'
        WHEN a.job_id IS NOT NULL THEN 'active'
        WHEN p.job_id IS NOT NULL THEN 'waiting-children'
        ELSE f.state
    END COLLATE "C" AS state,
    j.priority, j.attempts_max,
    coalesce(r.attempts_made, d.attempts_made, a.attempts_made, p.attempts_made, f.attempts_made)
        AS attempts_made,
    coalesce(r.attempts_recorded, d.attempts_recorded, a.attempts_recorded,
        p.attempts_recorded, f.attempts_recorded) AS attempts_recorded,
    coalesce(r.stalled_count, d.stalled_count, a.stalled_count, p.stalled_count, f.stalled_count)
        AS stalled_count,
    j.backoff, j.keep, j.timeout_ms,
    coalesce(a.cancel_requested, false) AS cancel_requested,
    j.dedupe_key, j.trace, j.parent,
    CASE WHEN r.has_flow OR d.has_flow OR a.has_flow OR p.has_flow OR f.has_flow THEN (
        SELECT json_build_object('manifest', w.manifest, 'fail_fast', w.fail_fast, 'counts',
            json_build_object('pending', w.pending, 'completed', w.completed,
                'failed', w.failed, 'cancelled', w.cancelled))
        FROM mq_flow w WHERE w.flow_id = j.id
    ) END AS flow,
    coalesce(r.seq, d.seq, a.seq, p.seq, f.seq) AS seq,
    coalesce(r.run_at, d.run_at, a.run_at, p.run_at, f.run_at) AS run_at,
    j.enqueued_at,
    coalesce(r.processed_at, d.processed_at, a.processed_at, p.processed_at, f.processed_at)
        AS processed_at,
    f.finished_at, f.exit, f.failed_reason,
    coalesce(r.progress, d.progress, a.progress, p.progress, f.progress) AS progress,
    a.lock_expires_at
FROM mq_job j
    LEFT JOIN mq_ready r ON r.job_id = j.id
    LEFT JOIN mq_delayed d ON d.job_id = j.id
    LEFT JOIN mq_active a ON a.job_id = j.id
    LEFT JOIN mq_parked p ON p.job_id = j.id
    LEFT JOIN mq_finished f ON f.job_id = j.id;

-- The ledgers, whole.
CREATE VIEW mq_job_attempts AS
SELECT job_id, attempt, started_at, finished_at, outcome, exit FROM mq_attempt
UNION ALL
SELECT job_id, attempts_recorded, CASE WHEN closed_run THEN processed_at END, finished_at,
    outcome, coalesce(run_exit, exit)
FROM mq_finished;
