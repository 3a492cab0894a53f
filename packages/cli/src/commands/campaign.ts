import { hostname } from 'node:os'
import type { Declaration } from '../shared/arguments/declare.ts'
import { parseDuration } from '../shared/arguments/durations.ts'
import { exitCodes } from '../shared/arguments/errors.ts'
import { parseArgument, setting, settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { hostIdentity, json, metadata, serviceSettings, ttl } from '../shared/arguments/store-settings.ts'
import { nameOf } from '../shared/arguments/values.ts'
import { now, randomId, setTimer } from '../shared/clock.ts'
import { print, printJson, formatShortDuration } from '../shared/output.ts'
import { leaderOf, type AnswerFields } from '../shared/service-answers.ts'
import { withService, groupPath, holderText, type SendRequest } from '../shared/service.ts'
import { nodeFromToken } from '../shared/store.ts'

export const campaignSettings = {
  ...serviceSettings,
  identity: hostIdentity,
  ttl,
  wait: setting(
    { placeholder: 'duration', help: 'how long to wait in the campaign queue while another node leads' },
    parseDuration,
  ),
  metadata,
  json,
}

/** `tenure campaign`: campaigns once. */
export const campaignCommand: Declaration = {
  name: 'campaign',
  argument: '<election>',
  summary: 'Campaign once in an election of a service. Nothing renews the lease: for that, use tenure run.',
  settings: campaignSettings,
  examples: [
    'tenure campaign deploy --url https://elections.example.com --ttl 10m && ./deploy.sh',
    'tenure campaign deploy --url http://127.0.0.1:7070 --identity node-17 --wait 1m --json',
  ],
  exitCodes: '0 if it leads, 1 if another node does, 2 for invalid usage, 69 if the service is unavailable',
  run: (flags, name) => campaign(name, flags),
}

/** The longest time for which the service holds a waiting campaign request. */
const longestWaitMs = 60_000
const shortestRoundMs = 1_000

/** Campaigns once, without renewing the lease. */
async function campaign(name: string, flags: Sources['flags']): Promise<void> {
  const group = parseArgument('ELECTION', name, nameOf)
  const settings = settingsFrom(campaignSettings, flags)
  const { identity: node_id = nodeFromToken(settings.url, settings) ?? hostname(), ttl, wait, metadata } = settings
  await withService(settings, async (ask) => {
    const answer = await campaignFor(ask, groupPath(group), wait, {
      node_id,
      lease_ttl_ms: ttl,
      instance_start_uuid: randomId(),
      ...(metadata && { metadata }),
    })
    const leader = leaderOf(answer['leader'])
    const won = answer['is_leader'] === true && leader !== null
    if (settings.json) printJson(answer)
    else if (won) {
      print(`${node_id} leads ${group} in term ${leader.term} for ${formatShortDuration(leader.lease_remaining_ms)}.`)
    } else if (leader?.node_id === node_id) {
      const left = formatShortDuration(leader.lease_remaining_ms)
      const already = `${node_id} already leads ${group} in term ${leader.term} from an earlier campaign, for another ${left}.`
      print(`${already} Resign first, or wait until that lease expires.`)
    } else print(`${node_id} does not lead ${group}: ${holderText(leader, answer['retry_after_ms'])}.`)
    if (!won) process.exitCode = exitCodes.failed
  })
}

async function campaignFor(
  ask: SendRequest,
  path: string,
  waitMs: number | undefined,
  claim: AnswerFields,
): Promise<AnswerFields> {
  if (waitMs === undefined) return ask({ method: 'POST', path: `${path}/campaign`, body: claim })
  const endMs = now().machineMs + waitMs
  for (;;) {
    const askedAtMs = now().machineMs
    const wait_ms = Math.ceil(Math.max(0, Math.min(longestWaitMs, endMs - askedAtMs)))
    const answer = await ask({ method: 'POST', path: `${path}/campaign`, body: { ...claim, wait_ms } }, wait_ms)
    if (answer['is_leader'] === true) return renewed(ask, path, claim, answer)
    const answeredAtMs = now().machineMs
    if (answeredAtMs >= endMs) return answer
    // The service may answer at once instead of holding the request. Pausing here keeps this from becoming a busy loop.
    await pause(Math.min(endMs, askedAtMs + shortestRoundMs) - answeredAtMs)
  }
}

/**
 * Renews a lease that was granted after a wait. How long the grant took to arrive is unknown, so the printed lease time
 * counts from this renewal.
 */
async function renewed(
  ask: SendRequest,
  path: string,
  { node_id, lease_ttl_ms }: AnswerFields,
  answer: AnswerFields,
): Promise<AnswerFields> {
  const body = { node_id, term: leaderOf(answer['leader'])?.term, extend_by_ms: lease_ttl_ms }
  const { ok, leader, current_leader } = await ask({ method: 'POST', path: `${path}/renew`, body })
  return ok === true ? { ...answer, leader } : { ...answer, is_leader: false, leader: current_leader ?? null }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimer(ms, resolve))
}
