import { isObject } from '@tenure/internal/objects'
import type { Declaration } from '../shared/arguments/declare.ts'
import { exitCodes } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { json, serviceSettings } from '../shared/arguments/store-settings.ts'
import { print, printJson, formatShortDuration, table, timestamp } from '../shared/output.ts'
import { listOf, malformedAnswer, type AnswerFields } from '../shared/service-answers.ts'
import { withService } from '../shared/service.ts'

export const statusSettings = { ...serviceSettings, json }

/** `tenure status`: shows the replicas of a service. */
export const statusCommand: Declaration = {
  name: 'status',
  summary: 'Show the replicas of a service: which one is active, and how far behind the others are.',
  settings: statusSettings,
  examples: ['tenure status --url https://elections.example.com'],
  exitCodes:
    '0 if a replica is active and the storage answers, 1 if not, 2 for invalid usage, 69 if the service is unavailable',
  run: (flags) => status(flags),
}

/** Prints which replica is active, and how far behind the others are. */
async function status(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(statusSettings, flags)
  await withService(settings, async (ask) => {
    const answer = await ask({ method: 'GET', path: '/v1/replicas' })
    const { active, term, storage, cluster_id } = answer
    const replicas = listOf(answer, 'replicas')
    if (!isObject(storage)) throw malformedAnswer('it does not describe the storage')
    const isWell = typeof active === 'string' && storage['healthy'] === true
    if (!isWell) process.exitCode = exitCodes.failed
    if (settings.json) return printJson(answer)
    const who = typeof active === 'string' ? `${active} is active in term ${String(term)}.` : 'No replica is active.'
    const health = storage['healthy'] === true ? 'answers' : 'does not answer'
    print(`${who} The storage (${String(storage['kind'])}) of cluster ${String(cluster_id)} ${health}.`)
    print(table(['REPLICA', 'ROLE', 'SINCE', 'FEED LAG', 'ADDRESS'], replicas.map(rowOf)))
  })
}

function rowOf({ replica, role, since_ms, changes_behind, feed_lag_ms, address }: AnswerFields): string[] {
  const lag =
    typeof feed_lag_ms === 'number' ? `${formatShortDuration(feed_lag_ms)} (${String(changes_behind)})` : 'unknown'
  return [
    String(replica),
    String(role),
    typeof since_ms === 'number' ? timestamp(since_ms) : role === 'active' ? 'unknown' : 'not connected',
    role === 'active' ? '-' : lag,
    typeof address === 'string' ? address : '-',
  ]
}
