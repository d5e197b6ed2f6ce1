-- Reads the number of jobs by queue and state, and the settings of queues.
--
-- ARGV: now. Answers two lists of fields and values in turn.

return { call('HGETALL', P .. ':counts'), call('HGETALL', P .. ':queues') }
