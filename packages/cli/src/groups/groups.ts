import { finishedIn } from '@tenure/page/model/jobs'
import type { LeaseRecord, LeaseStore } from 'tenure'
import type { ServiceStore } from 'tenure/stores/service'
import { usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import type { Credentials } from '../shared/arguments/store-settings.ts'
import { callWithTimeout } from '../shared/calls.ts'
import { endWithReader, print, printTable, shortTime, table, tell } from '../shared/output.ts'
import { everyPage, pageSize } from '../shared/pages.ts'
import { leaderOf, listOf, type Fields } from '../shared/service-answers.ts'
import { wallMs } from '../shared/clock.ts'
import { aboutRemainingMs, standingOf, type Standing } from '../shared/election-status.ts'
import { isService, noteMissingFolder, noteMissingNamespace, openChosenStore, whileOpen } from '../shared/store.ts'
import { groupsSettings } from './settings.ts'

/** Lists the elections of a store, page by page. */
export async function groups(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(groupsSettings, flags)
  const store = await openChosenStore(settings)
  noteMissingFolder(settings)
  endWithReader()
  await whileOpen(store, () => (isService(store) ? showGroups(store, settings) : showElections(store, settings)))
}

type Settings = Credentials & { readonly json: boolean; readonly timeout: number }

async function showGroups(service: ServiceStore, settings: Settings): Promise<void> {
  const listed = await everyPage<Fields>(settings, async (after) => {
    const query = new URLSearchParams({ limit: String(pageSize), ...(after !== undefined && { after }) })
    const request = { method: 'GET', path: `/v1/groups?${query.toString()}` } as const
    const page = await callWithTimeout(settings.timeout, (call) => service.request(request, call))
    return { items: listOf(page, 'groups'), next: typeof page['next'] === 'string' ? page['next'] : undefined }
  })
  if (settings.json) return
  if (listed.length === 0) return print(`There are no groups${isNamed(settings) ? ' that you may see' : ''}.`)
  const rows = listed.map(({ group_id, leader, highest_term, explicit }) => {
    const held = leaderOf(leader)
    const left = held ? shortTime(held.lease_remaining_ms) : '-'
    return [String(group_id), held?.node_id ?? '-', String(highest_term), left, explicit === true ? 'yes' : 'no']
  })
  print(table(['GROUP', 'LEADER', 'HIGHEST TERM', 'LEASE LEFT', 'DEFINED'], rows))
}

async function showElections(store: LeaseStore, settings: Settings): Promise<void> {
  if (!store.list) throw usageError(['This store cannot list its elections.'])
  const shown = (record: LeaseRecord) => standingOf(record.election, record, aboutRemainingMs(record))
  const finished = ({ leader, previousLeader }: Standing) => {
    if (leader || !previousLeader) return undefined
    return finishedIn({ carry: previousLeader.carry, ttlMs: previousLeader.leaseDurationMs }, wallMs())
  }
  const listed = await everyPage(settings, async (after) => {
    const page = await callWithTimeout(settings.timeout, async (call) => store.list?.({ limit: pageSize, after }, call))
    for (const problem of page?.problems ?? []) tell(problem)
    return { items: page?.records.map(shown) ?? [], next: page?.next }
  })
  if (listed.length === 0) await noteMissingNamespace(store, settings.timeout)
  if (settings.json) return
  if (listed.length === 0) return print('There are no elections.')
  const ends = listed.map(finished)
  const rows = listed.map(({ election, leader, previousLeader }, index) => {
    const left = leader ? shortTime(leader.remainingMs ?? 0) : '-'
    const end = ends[index] === undefined ? '-' : `- (${ends[index]})`
    return [election, leader?.holder ?? end, String((leader ?? previousLeader)?.term ?? 0), left]
  })
  printTable(['ELECTION', 'LEADER', 'TERM', 'LEASE LEFT'], rows, (row) => ends[row] !== undefined)
}

/**
 * Whether the caller authenticates. A service without authentication shows every group; otherwise it shows only those
 * that the caller may see.
 */
function isNamed({ tokenFile, certFile }: Credentials): boolean {
  return Boolean(tokenFile ?? certFile ?? process.env['TENURE_TOKEN'])
}
