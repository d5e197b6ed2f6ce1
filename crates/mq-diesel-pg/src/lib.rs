//! The Postgres store of mq, on diesel-async.
