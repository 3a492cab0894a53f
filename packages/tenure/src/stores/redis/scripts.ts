import { createHash } from 'node:crypto'

/** A script, and the hash under which Redis caches it. */
export interface Script {
  readonly text: string
  readonly sha: string
}

function scriptOf(lines: string): Script {
  const text = lines.trim()
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** Represents a missing key in a comparison. */
const absent = '-'
/** Matches no stored text, so that a call with it only reads. */
const nothing = '?'

/** Reads both keys and begins the branch for a state that differs from the one that the caller expects. */
const ifOther = `
local record, term = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
local version = record and '=' .. string.match(record, '^[^ ]*') or '${absent}'
if ARGV[1] ~= version or ARGV[2] ~= (term and '=' .. term or '${absent}') then`

/**
 * Compares, writes and answers in one script, during which Redis runs nothing else. `GET` rejects a key of another type
 * before anything is written, and one command writes both keys or neither.
 *
 * PERSIST does not change a key that never expires. But it counts as a write, so a replica, or a primary that must not
 * accept writes, also refuses the read, because its result could be stale. A primary that is out of memory can still be
 * read.
 *
 * With replicas to wait for, a read rewrites the term unchanged: WAIT covers only the writes of its own connection and
 * those before them. Without this, a read could show another connection's write that no replica has yet.
 */
export const swapScript = scriptOf(`
${ifOther}
  redis.call('PERSIST', KEYS[2])
  if ARGV[6] ~= '0' and term then redis.call('SET', KEYS[2], term) end
  return { 0, record, term }
end
redis.call('MSET', KEYS[1], ARGV[3], KEYS[2], ARGV[4])
redis.pcall('PUBLISH', ARGV[5], ARGV[3] .. '\\n' .. ARGV[4])
return { 1 }
`)

/** Compares like {@link swapScript} and removes the record. Also removes the term if the fourth argument is 1. */
export const forgetScript = scriptOf(`
${ifOther} return { 0 } end
redis.call('DEL', KEYS[1])
if ARGV[4] == '1' then redis.call('DEL', KEYS[2]) end
redis.pcall('PUBLISH', ARGV[3], '')
return { 1 }
`)

/** The arguments of {@link swapScript} for a read. */
export const readArguments: readonly string[] = [nothing, nothing, '', '', '']

/** Encodes a version or text for the comparison in {@link swapScript}. */
export function comparand(text: string | undefined): string {
  return text === undefined ? absent : `=${text}`
}

/**
 * Returns sections of INFO from the server that holds the key, which matters in a cluster. An error is returned as its
 * text.
 */
export const infoScript = scriptOf(`
local answers = {}
for index, section in ipairs(ARGV) do
  local answer = redis.pcall('INFO', section)
  answers[index] = type(answer) == 'table' and answer.err or answer
end
return answers
`)
