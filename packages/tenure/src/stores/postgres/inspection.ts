import { countReplicas } from '@tenure/internal/postgres-replicas'
import type { Finding } from '../finding.ts'
import type { PostgresRow } from './client.ts'

/** Settings that decide what a crash or a failover can lose. */
export const inspection = `
  select current_setting('synchronous_commit') as sync, current_setting('fsync') as fsync,
    current_setting('full_page_writes') as pages, current_setting('synchronous_standby_names') as standbys,
    ${countReplicas} as replicas,
    cast(pg_backend_pid() as text) as backend`
  .replace(/\s+/g, ' ')
  .trim()

/** What is wrong with them, the worst first. `backend` is the process that the client believes it is connected to, if it says so. */
export function findingsOf(row: PostgresRow, backend: number | undefined): Finding[] {
  const { sync, fsync, pages, standbys, replicas } = row
  const findings: Finding[] = []
  const say = (risk: Finding['risk'], text: string) => void findings.push({ risk, text })
  if (fsync === 'off')
    say('unsafe', 'fsync is off: a crash of the machine can bring old leases and terms back. Turn it on.')
  if (pages === 'off') {
    say('unsafe', 'full_page_writes is off: a crash of the machine can damage the tables. Turn it on.')
  }
  const isReplicated = Number(replicas) > 0
  if (isReplicated && standbys === '') {
    const text = `It has ${String(replicas)} replicas and waits for none of them: a failover can lose a lease or a term that was granted, and two can lead. Set synchronous_standby_names.`
    say('unsafe', text.replace('1 replicas and waits for none of them', '1 replica and does not wait for it'))
  }
  if (standbys !== '' && sync === 'local') {
    say(
      'unsafe',
      'synchronous_commit is local: no commit waits for the standby, and a failover can lose it. Set it to on.',
    )
  }
  if (standbys !== '' && sync === 'remote_write') {
    say(
      'tight',
      'synchronous_commit is remote_write: a standby that crashes at the failover can lose a lease. Set it to on.',
    )
  }
  if (backend !== undefined && String(backend) !== row['backend']) {
    say(
      'tight',
      'A pooler is between this store and PostgreSQL: notifications do not pass one in transaction mode, and standbys learn of a release only when they look. Connect past it.',
    )
  }
  return findings
}
