import { countReplicas } from '@tenure/internal/postgres-replicas'
import type { Finding } from '../../store-kit/diagnostics.ts'
import type { PostgresRow } from './client.ts'

/** Settings that determine what a crash or a failover can lose. */
export const inspection = `
  select current_setting('synchronous_commit') as sync, current_setting('fsync') as fsync,
    current_setting('full_page_writes') as pages, current_setting('synchronous_standby_names') as standbys,
    ${countReplicas} as replicas,
    cast(pg_backend_pid() as text) as backend`
  .replace(/\s+/g, ' ')
  .trim()

/**
 * Problems with these settings, worst first. `backend` is the server process that the client believes it is connected
 * to. Undefined if the client does not know it.
 */
export function findingsOf(row: PostgresRow, backend: number | undefined): Finding[] {
  const { sync, fsync, pages, standbys, replicas } = row
  const findings: Finding[] = []
  const say = (risk: Finding['risk'], text: string) => void findings.push({ risk, text })
  if (fsync === 'off') say('unsafe', 'fsync is off: a machine crash can restore old leases and terms. Turn it on.')
  if (pages === 'off') {
    say('unsafe', 'full_page_writes is off: a machine crash can damage the tables. Turn it on.')
  }
  const isReplicated = Number(replicas) > 0
  if (isReplicated && standbys === '') {
    const text = `It has ${String(replicas)} replicas and waits for none of them: a failover can lose a granted lease or term, and two candidates can lead at once. Set synchronous_standby_names.`
    say('unsafe', text.replace('1 replicas and waits for none of them', '1 replica and does not wait for it'))
  }
  if (standbys !== '' && sync === 'local') {
    say(
      'unsafe',
      'synchronous_commit is local: commits do not wait for the standby, so a failover can lose them. Set it to on.',
    )
  }
  if (standbys !== '' && sync === 'remote_write') {
    say(
      'tight',
      'synchronous_commit is remote_write: a standby that crashes during a failover can lose a lease. Set it to on.',
    )
  }
  if (backend !== undefined && String(backend) !== row['backend']) {
    say(
      'tight',
      'There is a pooler between this store and PostgreSQL: in transaction mode it does not forward notifications, so standbys learn of a release only by polling. Connect directly to PostgreSQL.',
    )
  }
  return findings
}
