import { CommandError, exitCodes } from './arguments/errors.ts'
import { isObject } from '@tenure/internal/objects'

/** An answer from the HTTP API, by field name. */
export type AnswerFields = Readonly<Record<string, unknown>>

/** The leader in an answer from the HTTP API. */
export interface Leader extends AnswerFields {
  readonly node_id: string
  readonly term: number
  readonly lease_remaining_ms: number
}

/** Returns a list from an answer. */
export function listOf(answer: AnswerFields, name: string): AnswerFields[] {
  const list = answer[name]
  if (Array.isArray(list) && list.every(isObject)) return list
  throw malformedAnswer(`it has no list of ${name}`)
}

/** Returns the leader that an answer names, or null. */
export function leaderOf(value: unknown): Leader | null {
  if (value === null || value === undefined) return null
  if (!isObject(value)) throw malformedAnswer('a leader is not an object')
  const { node_id, term, lease_remaining_ms } = value
  if (typeof node_id !== 'string' || !Number.isSafeInteger(term) || !Number.isFinite(lease_remaining_ms)) {
    throw malformedAnswer('a leader has no name, term or lease')
  }
  return value as Leader
}

/** The error for a malformed answer. */
export function malformedAnswer(what: string): CommandError {
  return new CommandError(`The service sent a malformed answer: ${what}.`, exitCodes.unavailable)
}
