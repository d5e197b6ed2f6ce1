//! The Redis store of mq: one Lua script per operation.
