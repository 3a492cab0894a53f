import type { ErrorCode } from '../common/errors.ts'

const given = new Set<string>()
const maxWarnings = 50

/** Emits a process warning about a setup that works but should be corrected. Each message is shown once. */
export function warnOnce(code: ErrorCode, message: string): void {
  if (given.has(message) || given.size >= maxWarnings) return
  given.add(message)
  process.emitWarning(message, { type: 'TenureWarning', code })
}
