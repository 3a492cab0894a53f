import { hostname } from 'node:os'
import type { ServiceStore } from 'tenure/stores/service'
import { within } from '../calls.ts'
import { now, randomId, setTimer } from '../clock.ts'
import { campaignSettings, listSettings, resignSettings } from '../commands/service.ts'
import { CommandError, exitCodes } from '../errors.ts'
import { failureOf } from '../failures.ts'
import { endWithReader, metadataText, print, printable, printJson, shortTime, table, timestamp } from '../output.ts'
import { argument, settingsFrom, type Sources } from '../settings.ts'
import { openChosenService } from '../store.ts'
import type { Credentials } from '../store-settings.ts'
import { nameOf } from '../values.ts'

/** An answer of the HTTP API, by the names that it has there. */
type Fields = Readonly<Record<string, unknown>>

interface Leader extends Fields {
  readonly node_id: string
  readonly term: number
  readonly lease_remaining_ms: number
}

type Request = Parameters<ServiceStore['request']>[0]
type Ask = (request: Request, moreMs?: number) => Promise<Fields>

/** The service holds a request in line for no longer. */
const longestWaitMs = 60_000
const shortestRoundMs = 1_000
const pageSize = 999

/** Tries to lead, once. */
export async function campaign(name: string, flags: Sources['flags']): Promise<void> {
  const group = argument('GROUP', name, nameOf)
  const settings = settingsFrom(campaignSettings, flags)
  const { identity: node_id = hostname(), ttl, wait, metadata } = settings
  await asking(settings, async (ask) => {
    const answer = await campaignFor(ask, pathOf(group), wait, {
      node_id,
      lease_ttl_ms: ttl,
      instance_start_uuid: randomId(),
      ...(metadata && { metadata }),
    })
    const leader = leaderOf(answer['leader'])
    const won = answer['is_leader'] === true && leader !== null
    if (settings.json) printJson(answer)
    else if (won) {
      print(`${node_id} leads ${group} in term ${leader.term} for ${shortTime(leader.lease_remaining_ms)}.`)
    } else if (leader?.node_id === node_id) {
      const left = shortTime(leader.lease_remaining_ms)
      const already = `${node_id} leads ${group} already, in term ${leader.term}, from an earlier campaign, for ${left}.`
      print(`${already} Resign first, or wait.`)
    } else print(`${node_id} does not lead ${group}: ${holderText(leader)}.`)
    if (!won) process.exitCode = exitCodes.failed
  })
}

async function campaignFor(ask: Ask, path: string, waitMs: number | undefined, claim: Fields): Promise<Fields> {
  if (waitMs === undefined) return ask({ method: 'POST', path: `${path}/campaign`, body: claim })
  const endMs = now().machineMs + waitMs
  for (;;) {
    const askedAtMs = now().machineMs
    const wait_ms = Math.ceil(Math.max(0, Math.min(longestWaitMs, endMs - askedAtMs)))
    const answer = await ask({ method: 'POST', path: `${path}/campaign`, body: { ...claim, wait_ms } }, wait_ms)
    if (answer['is_leader'] === true) return renewed(ask, path, claim, answer)
    const answeredAtMs = now().machineMs
    if (answeredAtMs >= endMs) return answer
    // It may answer at once, instead of letting us wait in line.
    await pause(Math.min(endMs, askedAtMs + shortestRoundMs) - answeredAtMs)
  }
}

/** Waiting in line took unknown time: the lease counts from a renewal that is sent now. */
async function renewed(ask: Ask, path: string, { node_id, lease_ttl_ms }: Fields, answer: Fields): Promise<Fields> {
  const body = { node_id, term: leaderOf(answer['leader'])?.term, extend_by_ms: lease_ttl_ms }
  const { ok, leader, current_leader } = await ask({ method: 'POST', path: `${path}/renew`, body })
  return ok === true ? { ...answer, leader } : { ...answer, is_leader: false, leader: current_leader ?? null }
}

/** Gives the lease back. Without a term it is the one that runs: the service compares both. */
export async function resign(name: string, flags: Sources['flags']): Promise<void> {
  const group = argument('GROUP', name, nameOf)
  const settings = settingsFrom(resignSettings, flags)
  const { identity: node_id = hostname() } = settings
  await asking(settings, async (ask) => {
    const path = pathOf(group)
    const term = settings.term ?? (await runningTerm(ask, path))
    const answer = await ask({ method: 'POST', path: `${path}/resign`, body: { node_id, term } })
    const done = answer['ok'] === true
    const leader = done ? null : leaderOf(answer['current_leader'])
    if (settings.json) printJson(answer)
    else if (done) print(`${node_id} leads ${group} no more: term ${term} has ended.`)
    else if (leader?.node_id === node_id)
      print(`${node_id} leads ${group} in term ${leader.term}, not in term ${term}.`)
    else print(`${node_id} does not lead ${group}: ${holderText(leader)}.`)
    if (!done) process.exitCode = exitCodes.failed
  })
}

async function runningTerm(ask: Ask, path: string): Promise<number> {
  const { leader, highest_term } = await ask({ method: 'GET', path: `${path}/leader` })
  return leaderOf(leader)?.term ?? Math.max(1, Number(highest_term))
}

/** Who takes part. */
export async function members(name: string, flags: Sources['flags']): Promise<void> {
  const group = argument('GROUP', name, nameOf)
  const settings = settingsFrom(listSettings, flags)
  await asking(settings, async (ask) => {
    const listed = listOf(await ask({ method: 'GET', path: `${pathOf(group)}/members` }), 'members')
    if (settings.json) return listed.forEach(printJson)
    const rows = listed.map(({ node_id, role, last_heartbeat_ms, metadata }) => [
      String(node_id),
      String(role),
      typeof last_heartbeat_ms === 'number' ? timestamp(last_heartbeat_ms) : 'never',
      metadataText(metadata),
    ])
    const sorted = rows.toSorted(([one = ''], [other = '']) => (one < other ? -1 : 1))
    print(table(['NODE', 'ROLE', 'LAST HEARD OF', 'METADATA'], sorted))
  })
}

/** What the service keeps, page by page. */
export async function groups(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(listSettings, flags)
  endWithReader()
  await asking(settings, async (ask) => {
    const all: Fields[] = []
    const pages = new Set<string>()
    for (let after: unknown = ''; typeof after === 'string';) {
      if (pages.has(after)) throw misunderstood('its pages of groups have no end')
      pages.add(after)
      const query = new URLSearchParams({ limit: String(pageSize), ...(after !== '' && { after }) })
      const page = await ask({ method: 'GET', path: `/v1/groups?${query.toString()}` })
      const listed = listOf(page, 'groups')
      if (settings.json) listed.forEach(printJson)
      else all.push(...listed)
      after = page['next']
    }
    if (settings.json) return
    if (all.length === 0) return print(`There is no group${isNamed(settings) ? ' that you may see' : ''}.`)
    const rows = all.map(({ group_id, leader, highest_term, explicit }) => {
      const held = leaderOf(leader)
      const left = held ? shortTime(held.lease_remaining_ms) : '-'
      return [String(group_id), held?.node_id ?? '-', String(highest_term), left, explicit === true ? 'yes' : 'no']
    })
    print(table(['GROUP', 'LEADER', 'HIGHEST TERM', 'LEASE LEFT', 'DEFINED'], rows))
  })
}

/** Asks the service that was chosen, and tells in words why it could not be asked. */
async function asking(
  settings: Credentials & { readonly url: string | undefined; readonly timeout: number },
  action: (ask: Ask) => Promise<void>,
): Promise<void> {
  const service = await openChosenService(settings)
  try {
    await action((request, moreMs = 0) => within(settings.timeout + moreMs, (call) => service.request(request, call)))
  } catch (error) {
    throw failureOf(error)
  } finally {
    await service.close?.()
  }
}

/** A service shows no more than whoever asks may see. Without authentication that is all. */
function isNamed({ tokenFile, certFile }: Credentials): boolean {
  return Boolean(tokenFile ?? certFile ?? process.env['TENURE_TOKEN'])
}

function pathOf(group: string): string {
  return `/v1/groups/${encodeURIComponent(group)}`
}

function listOf(answer: Fields, name: string): Fields[] {
  const list = answer[name]
  if (Array.isArray(list) && list.every(isObject)) return list
  throw misunderstood(`it has no list of ${name}`)
}

/** The leader that an answer names, or null. */
function leaderOf(value: unknown): Leader | null {
  if (value === null || value === undefined) return null
  if (!isObject(value)) throw misunderstood('a leader is no object')
  const { node_id, term, lease_remaining_ms } = value
  if (typeof node_id !== 'string' || !Number.isSafeInteger(term) || !Number.isFinite(lease_remaining_ms)) {
    throw misunderstood('a leader has no name, term or lease')
  }
  return value as Leader
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function misunderstood(what: string): CommandError {
  return new CommandError(`The answer of the service is not understood: ${what}.`, exitCodes.unavailable)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimer(ms, resolve))
}

function holderText(leader: Leader | null): string {
  if (!leader) return 'nobody does'
  const { node_id, term, lease_remaining_ms } = leader
  return printable(`${node_id} does, in term ${term}, for ${shortTime(lease_remaining_ms)} unless it is renewed`)
}
