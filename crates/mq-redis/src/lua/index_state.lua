-- Says how the list indexes stand: `on`, `off` or `building`.
--
-- ARGV: now, state.

call('HSET', P .. ':schema', 'indexes', ARGV[2])
return 1
