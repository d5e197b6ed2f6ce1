DROP VIEW mq_job_attempts, mq_jobs;
DROP TABLE mq_workers, mq_flow_outbox, mq_flow_purge, mq_flow_children, mq_flow, mq_schedules,
    mq_queue_control, mq_dedupe, mq_claim, mq_attempt, mq_finished, mq_parked, mq_active,
    mq_delayed, mq_ready, mq_job, mq_meta;
DROP SEQUENCE mq_seq;
