import { TenureError } from '../../common/errors.ts'
import type { Finding } from '../../store-kit/diagnostics.ts'
import type { SqliteRow } from './client.ts'

const levels = ['OFF', 'NORMAL', 'FULL', 'EXTRA']

/** Problems with the settings of a connection, worst first. */
export function findingsOf({ synchronous, journal, busy }: SqliteRow): Finding[] {
  const findings: Finding[] = []
  const level = Number(synchronous)
  if (!(level >= 2)) {
    const text = `PRAGMA synchronous is ${levels[level] ?? String(synchronous)}, below FULL: a power failure can undo a granted lease or term, and two candidates can lead at once. Set PRAGMA synchronous = FULL on the store's connection.`
    findings.push({ risk: 'unsafe', text })
  }
  if (journal !== 'wal') {
    const text = `The journal mode is ${String(journal).toUpperCase()}, so a power failure can undo a granted lease or term. Run PRAGMA journal_mode = WAL once. The file keeps it.`
    findings.push({ risk: 'unsafe', text })
  }
  if (Number(busy) > longestBusyMs) {
    const text = `The busy timeout is ${String(busy)} ms. A client of "@libsql/client" stops its whole process for that long while it waits for a lock. Leave its "timeout" unset: the store tries again by itself.`
    findings.push({ risk: 'tight', text })
  }
  return findings
}

const longestBusyMs = 100

/** The error for settings under which a grant could be undone. Nothing was written. */
export function unsafeSettings(place: string, settings: SqliteRow | undefined): TenureError {
  const found = settings ? findingsOf(settings).filter(({ risk }) => risk === 'unsafe') : []
  const why = found.map(({ text }) => text).join(' ') || 'PRAGMA synchronous was below FULL for a moment.'
  return new TenureError('UNSAFE_SETTINGS', `The SQLite store does not write to ${place}. ${why}`, { retryable: true })
}
