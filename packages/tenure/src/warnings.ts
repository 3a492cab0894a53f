import { messageOf } from '@tenure/internal/message'
import { isTenureError, type ErrorCode } from './errors.ts'

const warned = new Set<string>()
/** Apart from the warnings: a name for each tenant must not use up the places of what fails. */
const advised = new Set<string>()
const mostOfEach = 50
/** What nobody tries again: the work of the program itself, and what was found by asking once. */
const untried: readonly string[] = ['WORK_FAILED', 'WORK_UNSETTLED', 'MISSING_RIGHT']

/** Errors that nobody listens to must not pass in silence. Retries repeat themselves, so each kind is shown once. */
export function warnOnce(error: unknown, listener = 'an observer'): void {
  const code = isTenureError(error) ? error.code : 'BACKEND_UNAVAILABLE'
  const message = messageOf(error)
  // Names and numbers differ from one time to the next.
  if (!isFirst(warned, `${code} ${message.replaceAll(/"[^"]*"|\d+/g, '').slice(0, 80)}`)) return
  const cause = error instanceof Error && error.cause instanceof Error ? `${error.cause.stack ?? ''}\n` : ''
  const again = untried.includes(code) ? '' : 'It is tried again. '
  const detail = `${cause}${again}Further errors of this kind are not shown; pass ${listener} to see all.`
  process.emitWarning(message, { type: 'TenureWarning', code, detail })
}

/** What works and should be corrected all the same; each message is shown once. */
export function adviseOnce(code: ErrorCode, message: string): void {
  if (isFirst(advised, message)) process.emitWarning(message, { type: 'TenureWarning', code })
}

function isFirst(shown: Set<string>, kind: string): boolean {
  if (shown.has(kind) || shown.size >= mostOfEach) return false
  shown.add(kind)
  return true
}
