-- Reads on through the indexes of a list.
--
-- ARGV: now; the order: `e` enqueued_at, `r` run_at, `l` lock_expires_at, `f`
-- finished_at; the direction: `a` or `d`; how many to read at the most; the
-- place to read on from, as score and tie (both empty: the beginning); queue and
-- name (empty: any); for `f` the letters of the states.
--
-- Answers `off` if the order needs the list indexes and they are not there;
-- else whether all was read, then for each job: score, tie, id, and its record,
-- live text, end, progress and flow; no record if the job is gone.

local order, ascending, most = ARGV[2], ARGV[3] == 'a', tonumber(ARGV[4])
local from, tie = tonumber(ARGV[5]), ARGV[6]
local queue, name, states = ARGV[7], ARGV[8], ARGV[9]

-- How much of a member its order goes by, and where its id begins. Arrival
-- numbers are unique, so an id after them decides nothing.
local tie_length, id_begins = nil, 1
if order == 'r' then tie_length, id_begins = 6, 11 end
if order == 'f' then tie_length, id_begins = 6, 7 end

local function tie_of(member) return tie_length and sub(member, 1, tie_length) or member end

-- ---- which indexes hold what was asked for

local function queues_with(state)
  if queue ~= '' then return { queue } end
  local queues, seen = {}, {}
  for _, field in ipairs(call('HKEYS', P .. ':counts')) do
    local of = sub(field, 1, -3)
    if not seen[of] and (not state or sub(field, -1) == state) then
      seen[of] = true
      queues[#queues + 1] = of
    end
  end
  return queues
end

local keys = {}
if order == 'e' then
  if call('HGET', P .. ':schema', 'indexes') ~= 'on' then return 'off' end
  if name ~= '' then
    keys[1] = P .. ':byname:' .. name
  else
    for _, of in ipairs(queues_with()) do keys[#keys + 1] = P .. ':byqueue:' .. of end
  end
elseif order == 'r' then
  for _, of in ipairs(queues_with('d')) do
    local names = name ~= '' and { name } or call('SMEMBERS', P .. ':delaying:' .. of)
    for _, each in ipairs(names) do
      local key = P .. ':delayed:' .. of .. '\0' .. each
      if call('EXISTS', key) == 1 then
        keys[#keys + 1] = key
      elseif name == '' then
        srem(P .. ':delaying:' .. of, each)
      end
    end
  end
elseif order == 'l' then
  keys[1] = P .. ':active'
else
  for _, slot in ipairs(call('SMEMBERS', P .. ':histories')) do
    local asked = string.find(states, sub(slot, -1), 1, true) and (name == '' or sub(slot, 1, -3) == name)
    if asked then
      keys[#keys + 1] = P .. ':ended:' .. slot
      keys[#keys + 1] = P .. ':spared:' .. slot
    end
  end
end

-- ---- reading them together

-- How many members of an index come before the place to read on from, in the
-- direction of the list, itself included.
local function passed(key)
  if not from then return 0 end
  local lower = call('ZCOUNT', key, '-inf', '(' .. ARGV[5])
  local upper = lower + call('ZCOUNT', key, ARGV[5], ARGV[5])
  -- Among those of the same score, the first that is not before the tie.
  while lower < upper do
    local middle = math.floor((lower + upper) / 2)
    local at_middle = tie_of(call('ZRANGE', key, middle, middle)[1])
    if before(at_middle, tie) or ascending and at_middle == tie then
      lower = middle + 1
    else
      upper = middle
    end
  end
  if ascending then return lower end
  return call('ZCARD', key) - lower
end

local ahead = math.ceil(most / math.max(#keys, 1)) + 1

local function refill(stream)
  local last = stream.rank + ahead - 1
  if ascending then
    stream.list = call('ZRANGE', stream.key, stream.rank, last, 'WITHSCORES')
  else
    stream.list = call('ZRANGE', stream.key, stream.rank, last, 'REV', 'WITHSCORES')
  end
  stream.rank = stream.rank + #stream.list / 2
  stream.at = 1
  stream.score = tonumber(stream.list[2])
end

local function comes_first(one, other)
  if one.score ~= other.score then return (one.score < other.score) == ascending end
  return before(tie_of(one.list[one.at]), tie_of(other.list[other.at])) == ascending
end

local streams = {}
for _, key in ipairs(keys) do
  local stream = { key = key, rank = passed(key) }
  refill(stream)
  if stream.score then streams[#streams + 1] = stream end
end

local taken = {}
while #taken < most and #streams > 0 do
  local first, place = streams[1], 1
  for i = 2, #streams do
    if comes_first(streams[i], first) then first, place = streams[i], i end
  end
  taken[#taken + 1] = { key = first.key, member = first.list[first.at], score = first.list[first.at + 1] }
  first.at = first.at + 2
  if first.at > #first.list then
    refill(first)
  else
    first.score = tonumber(first.list[first.at + 1])
  end
  if not first.score then table.remove(streams, place) end
end

-- ---- the jobs, a few at a time, so that the answer stays within bounds

local MOST_BYTES, AT_ONCE = 8388608, 16
local answer, bytes, read = { 0 }, 0, 0
while read < #taken and bytes <= MOST_BYTES do
  local ids, texts = {}, {}
  for i = read + 1, math.min(read + AT_ONCE, #taken) do ids[#ids + 1] = sub(taken[i].member, id_begins) end
  for i, id in ipairs(ids) do
    texts[i] = P .. ':job:' .. id
    texts[#ids + i] = P .. ':end:' .. id
  end
  texts = call('MGET', unpack(texts))
  local lives = call('HMGET', P .. ':live', unpack(ids))
  local progress = call('HMGET', P .. ':progress', unpack(ids))
  local flows = call('HMGET', P .. ':flows', unpack(ids))
  for i, id in ipairs(ids) do
    read = read + 1
    local job = taken[read]
    if not texts[i] and order == 'e' then zrem(job.key, job.member) end
    local at = tie_length and string.format('%.0f', (unpack_struct('>I6', job.member))) or id
    for _, value in ipairs({ job.score, at, id, texts[i], lives[i], texts[#ids + i], progress[i], flows[i] }) do
      answer[#answer + 1] = value
    end
    for _, text in ipairs({ texts[i], texts[#ids + i], progress[i] }) do
      bytes = bytes + (text and #text or 0)
    end
  end
end
if read == #taken and #streams == 0 then answer[1] = 1 end
flush()
return answer
