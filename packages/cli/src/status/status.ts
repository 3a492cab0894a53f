import { isObject } from '@tenure/internal/objects'
import { exitCodes } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { print, printJson, shortTime, table, timestamp } from '../shared/output.ts'
import { listOf, misunderstood, type Fields } from '../shared/service-answers.ts'
import { asking } from '../shared/service.ts'
import { statusSettings } from './settings.ts'

/** Prints which replica is active, and how far behind the others are. */
export async function status(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(statusSettings, flags)
  await asking(settings, async (ask) => {
    const answer = await ask({ method: 'GET', path: '/v1/replicas' })
    const { active, term, storage, cluster_id } = answer
    const replicas = listOf(answer, 'replicas')
    if (!isObject(storage)) throw misunderstood('it does not describe the storage')
    const isWell = typeof active === 'string' && storage['healthy'] === true
    if (!isWell) process.exitCode = exitCodes.failed
    if (settings.json) return printJson(answer)
    const who = typeof active === 'string' ? `${active} is active in term ${String(term)}.` : 'No replica is active.'
    const health = storage['healthy'] === true ? 'answers' : 'does not answer'
    print(`${who} The storage (${String(storage['kind'])}) of cluster ${String(cluster_id)} ${health}.`)
    print(table(['REPLICA', 'ROLE', 'SINCE', 'FEED LAG', 'ADDRESS'], replicas.map(rowOf)))
  })
}

function rowOf({ replica, role, since_ms, changes_behind, feed_lag_ms, address }: Fields): string[] {
  const lag = typeof feed_lag_ms === 'number' ? `${shortTime(feed_lag_ms)} (${String(changes_behind)})` : 'unknown'
  return [
    String(replica),
    String(role),
    typeof since_ms === 'number' ? timestamp(since_ms) : role === 'active' ? 'unknown' : 'not connected',
    role === 'active' ? '-' : lag,
    typeof address === 'string' ? address : '-',
  ]
}
