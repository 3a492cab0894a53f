import { createHash } from 'node:crypto'

/** A script, and the name under which Redis remembers it. */
export interface Script {
  readonly text: string
  readonly sha: string
}

function scriptOf(lines: string): Script {
  const text = lines.trim()
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** What means a key that is not there, where a text is compared. */
const absent = '-'
/** Equal to nothing: it is only asked what is there. */
const nothing = '?'

/** What is there, and the beginning of what is done if that is not what was judged. */
const ifOther = `
local record, term = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
local version = record and '=' .. string.match(record, '^[^ ]*') or '${absent}'
if ARGV[1] ~= version or ARGV[2] ~= (term and '=' .. term or '${absent}') then`

/**
 * Compares, writes and answers; Redis runs nothing else meanwhile. A key of another type is refused by `GET`, before
 * anything is written, and both keys are written by one command or not at all.
 *
 * PERSIST changes nothing about a key that never expires. It is a write all the same, so that a replica, or a primary
 * that may take no writes, refuses to be read too: what it shows may be old. One that is full can be read.
 *
 * Where replicas are waited for, a read writes the term as it is: WAIT waits for the writes of its own connection, and
 * those before them. What another one wrote, and no replica has yet, is not to be shown.
 */
export const swapping = scriptOf(`
${ifOther}
  redis.call('PERSIST', KEYS[2])
  if ARGV[6] ~= '0' and term then redis.call('SET', KEYS[2], term) end
  return { 0, record, term }
end
redis.call('MSET', KEYS[1], ARGV[3], KEYS[2], ARGV[4])
redis.pcall('PUBLISH', ARGV[5], ARGV[3] .. '\\n' .. ARGV[4])
return { 1 }
`)

/** Compares as {@link swapping} does, and removes the record; the term too, if the fourth argument says so. */
export const forgetting = scriptOf(`
${ifOther} return { 0 } end
redis.call('DEL', KEYS[1])
if ARGV[4] == '1' then redis.call('DEL', KEYS[2]) end
redis.pcall('PUBLISH', ARGV[3], '')
return { 1 }
`)

/** What a read gives to {@link swapping}. */
export const looking: readonly string[] = [nothing, nothing, '', '', '']

/** A version or a text as {@link swapping} compares it. */
export function compared(text: string | undefined): string {
  return text === undefined ? absent : `=${text}`
}

/** Sections of INFO from the server that has the key, which in a cluster is one of many; an error as its text. */
export const informing = scriptOf(`
local answers = {}
for index, section in ipairs(ARGV) do
  local answer = redis.pcall('INFO', section)
  answers[index] = type(answer) == 'table' and answer.err or answer
end
return answers
`)
