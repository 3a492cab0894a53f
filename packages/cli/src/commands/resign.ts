import { hostname } from 'node:os'
import type { Declaration } from '../shared/arguments/declare.ts'
import { exitCodes } from '../shared/arguments/errors.ts'
import { parseArgument, setting, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { hostIdentity, json, serviceSettings } from '../shared/arguments/store-settings.ts'
import { nameOf, termOf } from '../shared/arguments/values.ts'
import { print, printJson } from '../shared/output.ts'
import { leaderOf } from '../shared/service-answers.ts'
import { withService, groupPath, holderText, type SendRequest } from '../shared/service.ts'
import { nodeFromToken } from '../shared/store.ts'

export const resignSettings = {
  ...serviceSettings,
  identity: hostIdentity,
  term: setting(
    {
      placeholder: 'number',
      help: 'the term to end; flag only',
      shownDefault: 'the current term',
      withoutVariable: true,
    },
    termOf,
  ),
  json,
}

/** `tenure resign`: releases a lease. */
export const resignCommand: Declaration = {
  name: 'resign',
  argument: '<election>',
  summary: 'Release the lease of an election of a service.',
  settings: resignSettings,
  examples: [
    'tenure resign deploy --url https://elections.example.com',
    'tenure resign deploy --url http://127.0.0.1:7070 --identity node-17 --term 42',
  ],
  exitCodes:
    '0 if the lease was released, now or earlier, 1 if this node does not lead, 2 for invalid usage, 69 if the service is unavailable',
  run: (flags, name) => resign(name, flags),
}

/** Releases the lease. Without --term it ends the current term. The service compares both the node and the term. */
async function resign(name: string, flags: Sources['flags']): Promise<void> {
  const group = parseArgument('ELECTION', name, nameOf)
  const settings = settingsFrom(resignSettings, flags)
  const { identity: node_id = nodeFromToken(settings.url, settings) ?? hostname() } = settings
  await withService(settings, async (ask) => {
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

async function runningTerm(ask: SendRequest, path: string): Promise<number> {
  const { leader, highest_term } = await ask({ method: 'GET', path: `${path}/leader` })
  return leaderOf(leader)?.term ?? Math.max(1, Number(highest_term))
}
