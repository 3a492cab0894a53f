import { isTenureError, messageOf } from './errors.ts'

const warned = new Set<string>()
const mostWarnings = 50
/** What nobody tries again: the work of whoever uses the library. */
const ownWork: readonly string[] = ['WORK_FAILED', 'WORK_UNSETTLED']

/** What nobody listens to must not fail in silence. Retries repeat themselves, so each kind is told once. */
export function warnOnce(error: unknown): void {
  const code = isTenureError(error) ? error.code : 'BACKEND_UNAVAILABLE'
  const message = messageOf(error)
  // Names and numbers differ from one time to the next.
  const kind = `${code} ${message.replaceAll(/"[^"]*"|\d+/g, '').slice(0, 80)}`
  if (warned.has(kind) || warned.size >= mostWarnings) return
  warned.add(kind)
  const cause = error instanceof Error && error.cause instanceof Error ? `${error.cause.stack ?? ''}\n` : ''
  const again = ownWork.includes(code) ? '' : 'It is tried again. '
  const detail = `${cause}${again}Further errors of this kind are not shown; pass an observer to see all.`
  process.emitWarning(message, { type: 'TenureWarning', code, detail })
}
