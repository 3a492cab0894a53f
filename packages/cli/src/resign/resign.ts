import { hostname } from 'node:os'
import { exitCodes } from '../shared/arguments/errors.ts'
import { argument, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { nameOf } from '../shared/arguments/values.ts'
import { print, printJson } from '../shared/output.ts'
import { leaderOf } from '../shared/service-answers.ts'
import { asking, groupPath, holderText, type Ask } from '../shared/service.ts'
import { nodeForService } from '../shared/store.ts'
import { resignSettings } from './settings.ts'

/** Releases the lease. Without --term it ends the current term. The service compares both the node and the term. */
export async function resign(name: string, flags: Sources['flags']): Promise<void> {
  const group = argument('ELECTION', name, nameOf)
  const settings = settingsFrom(resignSettings, flags)
  const { identity: node_id = nodeForService(settings.url, settings) ?? hostname() } = settings
  await asking(settings, async (ask) => {
    const path = groupPath(group)
    const term = settings.term ?? (await runningTerm(ask, path))
    const answer = await ask({ method: 'POST', path: `${path}/resign`, body: { node_id, term } })
    const done = answer['ok'] === true
    const leader = done ? null : leaderOf(answer['current_leader'])
    if (settings.json) printJson(answer)
    else if (done) print(`${node_id} no longer leads ${group}: term ${term} has ended.`)
    else if (leader?.node_id === node_id)
      print(`${node_id} leads ${group} in term ${leader.term}, not in term ${term}.`)
    else print(`${node_id} does not lead ${group}: ${holderText(leader, answer['retry_after_ms'])}.`)
    if (!done) process.exitCode = exitCodes.failed
  })
}

async function runningTerm(ask: Ask, path: string): Promise<number> {
  const { leader, highest_term } = await ask({ method: 'GET', path: `${path}/leader` })
  return leaderOf(leader)?.term ?? Math.max(1, Number(highest_term))
}
