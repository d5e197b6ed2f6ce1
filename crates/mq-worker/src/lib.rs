//! The worker of mq.
