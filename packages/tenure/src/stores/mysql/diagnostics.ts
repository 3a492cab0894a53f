import type { Finding } from '../../store-kit/diagnostics.ts'
import type { MysqlAnswer } from './client.ts'
import { isMariaDB, settingsIn } from './settings.ts'
import type { MysqlStatement } from './statements.ts'

/** The settings and states that determine what a crash or a failover can lose. Each server has only some of them. */
const relevant = [
  'version',
  'log_bin',
  'sync_binlog',
  'innodb_doublewrite',
  'innodb_flush_method',
  'innodb_lock_wait_timeout',
  'rpl_semi_sync_%',
  'wsrep_on',
  'wsrep_sync_wait',
  'wsrep_provider_options',
  'group_replication_group_name',
  'group_replication_consistency',
]
const listed = relevant.map((name) => `variable_name like '${name}'`).join(' or ')
const variables: MysqlStatement = { text: `show variables where ${listed}`, parameters: [] }
// Without the right PROCESS, a user sees only its own connections.
const replicas: MysqlStatement = {
  text: `select cast(count(*) as char) as replicas from information_schema.processlist where command like 'Binlog Dump%'`,
  parameters: [],
}

/** Problems with the server's settings, worst first. */
export async function inspect(run: (statement: MysqlStatement) => Promise<MysqlAnswer>): Promise<Finding[]> {
  const settings = settingsIn((await run(variables)).rows)
  const [row] = (await run(replicas)).rows
  return findingsOf(settings, Number(row?.['replicas'] ?? 0))
}

/** Problems with these settings, worst first. `count` is the number of connected replicas that the user can see. */
export function findingsOf(settings: ReadonlyMap<string, string>, count: number): Finding[] {
  const findings: Finding[] = []
  const say = (risk: Finding['risk'], text: string) => void findings.push({ risk, text })
  const isOn = (...names: string[]) => names.some((name) => /^(on|1)$/i.test(settings.get(name) ?? ''))
  const either = (...names: string[]) => names.map((name) => settings.get(name)).find((value) => value !== undefined)
  if (isOn('log_bin') && settings.get('sync_binlog') !== '1') {
    say(
      'unsafe',
      `sync_binlog is ${settings.get('sync_binlog')}: if its machine crashes, the server can lose granted leases and terms, because it undoes commits that its binary log does not have. Set it to 1.`,
    )
  }
  if (settings.get('innodb_doublewrite') === 'OFF') {
    say('unsafe', 'innodb_doublewrite is OFF: a machine crash can damage the table. Turn it on.')
  }
  const method = settings.get('innodb_flush_method') ?? ''
  if (/^(nosync|littlesync)$/i.test(method)) {
    say('unsafe', `innodb_flush_method is ${method}: a machine crash can lose leases and terms. Remove the setting.`)
  }
  const isSemiSync = isOn('rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled')
  const waitsUntil = either('rpl_semi_sync_master_wait_point', 'rpl_semi_sync_source_wait_point')
  const waitsMs = Number(either('rpl_semi_sync_master_timeout', 'rpl_semi_sync_source_timeout'))
  if (count > 0 && !isSemiSync) {
    say(
      'unsafe',
      `It waits for none of its replicas (${count}): a failover can lose a granted lease or term, and two candidates can lead at once. Turn on semi-synchronous replication.`,
    )
  }
  if (isSemiSync && waitsUntil === 'AFTER_COMMIT') {
    say(
      'unsafe',
      'Semi-synchronous replication waits AFTER_COMMIT: others see a lease that a failover can still lose. Set its wait point to AFTER_SYNC.',
    )
  }
  if (isSemiSync && waitsMs < day) {
    say(
      'unsafe',
      `Semi-synchronous replication waits at most ${waitsMs} ms for a replica. After that, a failover can lose a granted lease or term. Raise its timeout to the maximum.`,
    )
  }
  const ignored = /\bpc\.ignore_(sb|quorum)\s*=\s*(true|yes|1)\b/i.exec(settings.get('wsrep_provider_options') ?? '')
  if (isOn('wsrep_on') && ignored) {
    say('unsafe', `${ignored[0]} lets both sides of a split cluster elect a leader. Remove it.`)
  }
  if (isOn('wsrep_on') && Number(settings.get('wsrep_sync_wait') ?? 0) % 2 === 0) {
    say(
      'tight',
      'wsrep_sync_wait is 0: a node can show an old record, so candidates on other nodes notice a change late. Set it to 1.',
    )
  }
  if (settings.get('group_replication_group_name') && settings.get('group_replication_consistency') === 'EVENTUAL') {
    say(
      'tight',
      'group_replication_consistency is EVENTUAL: a new primary can show an old record. Set it to BEFORE_ON_PRIMARY_FAILOVER.',
    )
  }
  const lockSeconds = Number(settings.get('innodb_lock_wait_timeout'))
  if (!isMariaDB(settings) && lockSeconds > 10) {
    say(
      'tight',
      `innodb_lock_wait_timeout is ${lockSeconds} s: while another session holds a lock, abandoned calls stay on the server for that long. Set it to 1 for the connections of the store.`,
    )
  }
  return findings
}

const day = 86_400_000
