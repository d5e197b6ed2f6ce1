-- Binds the store to a name, unless it has one. Answers the one it has.
--
-- ARGV: now, name.

call('HSETNX', P .. ':schema', 'name', ARGV[2])
return call('HGET', P .. ':schema', 'name')
