-- The one way into the store. Stands after the prelude where it is needed.

local indexed = call('HGET', P .. ':schema', 'indexes') ~= 'off'
local just_now = pack('>I6I6', now, now)

-- A job's kind, from its record but for its first 18 bytes, and where what
-- follows it begins.
local function kind_text_of(body)
  local length = byte(body, 7) * 256 + byte(body, 8)
  return sub(body, 9, 8 + length), 9 + length
end

local function insert(id, kind_text, body, run_at)
  local kind = kind_of(kind_text)
  local seq = draw_seq()
  local delayed = run_at > now
  set(P .. ':job:' .. id, seq .. (delayed and pack('>I6I6', now, run_at) or just_now) .. body)
  if delayed then
    file_delayed(kind, run_at, seq, id)
    count(kind.queue, 'd', 1)
  else
    zadd(kind.waiting, kind.score, seq .. id)
    count(kind.queue, 'w', 1)
  end
  if indexed then
    zadd(P .. ':byname:' .. kind.name, now, id)
    zadd(P .. ':byqueue:' .. kind.queue, now, id)
  end
  wake(kind.queue)
end
