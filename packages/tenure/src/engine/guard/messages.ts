/** The messages that a process writes to the pipe of its guard: one JSON object per line. The guard writes nothing back. */
import type { GuardedAttempt } from './guard.ts'

/**
 * - `process`: is the first message, and identifies the process that owns the pipe. `startedAt` distinguishes the
 *   process from a later one with the same id. In another PID namespace, the same id would identify another process.
 * - `register`: an acquire is about to be sent.
 * - `sending`: a renewal or a release is about to be sent.
 * - `unregister`: this attempt no longer holds anything.
 */
export type GuardMessage =
  | { readonly type: 'process'; readonly id: number; readonly startedAt: string; readonly namespace: string }
  | { readonly type: 'register'; readonly attempt: GuardedAttempt }
  | { readonly type: 'sending'; readonly attempt: string; readonly writeId: string }
  | { readonly type: 'unregister'; readonly attempt: string }

/** Encodes a message as one line. */
export function encodeMessage(message: GuardMessage): string {
  return `${JSON.stringify(message)}\n`
}

/** The maximum length of a line. An attempt with its write ids takes a few kilobytes. */
const longestLine = 64 * 1_024
/** The maximum length of a string in a message. A name is at most 256 bytes long, but a URL may be longer. */
const longestText = 4_096
/** The maximum length of a write id. Those of this library have 36 characters. */
const longestId = 256
/** The maximum number of write ids of one attempt, as in `guard.ts`. */
const writeIdsLimit = 64

/** Collects the complete lines of a stream of text. */
export class MessageReader {
  #rest = ''

  /** Returns the messages that `text` completes. Throws if a line is too long or is not a message. */
  read(text: string): GuardMessage[] {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop() ?? ''
    if (this.#rest.length > longestLine) throw new TypeError('A message to the guard is too long.')
    return lines.map((line) => decodeMessage(parsed(line)))
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    // The parser's error would quote the line, which may contain the password of a store.
    return undefined
  }
}

function decodeMessage(value: unknown): GuardMessage {
  const message = value as GuardMessage
  const isMessage =
    isObject(message) &&
    (message.type === 'process'
      ? isCount(message.id) && isText(message.startedAt) && isText(message.namespace)
      : message.type === 'register'
        ? isAttempt(message.attempt)
        : message.type === 'sending'
          ? isId(message.attempt) && isId(message.writeId)
          : message.type === 'unregister' && isId(message.attempt))
  if (!isMessage) throw new TypeError('A message to the guard is malformed.')
  return message
}

function isAttempt(value: unknown): boolean {
  if (!isObject(value)) return false
  const { storeUrl, election, holder, attempt, afterTerm, leaseDurationMs, afterMs, writeIds } = value
  const isNamed = [storeUrl, election, holder].every(isText) && isId(attempt)
  return isNamed && [afterTerm, leaseDurationMs, afterMs].every(isCount) && isIds(writeIds)
}

function isIds(value: unknown): boolean {
  return Array.isArray(value) && value.length <= writeIdsLimit && value.every(isId)
}

function isId(value: unknown): boolean {
  return isText(value) && (value as string).length <= longestId
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.length <= longestText
}

function isCount(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value < Infinity
}
