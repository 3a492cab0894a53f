import { isTenureError } from './errors.ts'

const warned = new Set<unknown>()

/** What nobody listens to must not fail in silence. Retries repeat themselves, so each code is told once. */
export function warnOnce(error: unknown): void {
  const code = isTenureError(error) ? error.code : 'BACKEND_UNAVAILABLE'
  if (warned.has(code)) return
  warned.add(code)
  const detail = 'It is tried again. Further errors of this kind are not shown; pass an observer to see all.'
  const message = error instanceof Error ? error.message : String(error)
  process.emitWarning(message, { type: 'TenureWarning', code, detail })
}
