-- Deletes a schedule.
--
-- ARGV: now, key. Answers 1 if there was one.

call('ZREM', P .. ':slots', ARGV[2])
return call('HDEL', P .. ':schedules', ARGV[2])
