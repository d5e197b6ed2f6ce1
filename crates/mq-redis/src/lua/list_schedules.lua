-- Reads all schedules.
--
-- ARGV: now. Answers keys and texts in turn.

return call('HGETALL', P .. ':schedules')
