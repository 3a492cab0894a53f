import type { ErrorCode } from './errors.ts'

const given = new Set<string>()
const mostPieces = 50

/** Points out what works and should be corrected all the same, as a warning of the process. Each message is shown once. */
export function adviseOnce(code: ErrorCode, message: string): void {
  if (given.has(message) || given.size >= mostPieces) return
  given.add(message)
  process.emitWarning(message, { type: 'TenureWarning', code })
}
