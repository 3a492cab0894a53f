import { finishedIn } from '@tenure/page/model/jobs'
import type { LeaseRecord, LeaseStore } from 'tenure'
import type { ServiceStore } from 'tenure/stores/service'
import type { Declaration } from '../shared/arguments/declare.ts'
import { usageError } from '../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../shared/arguments/settings.ts'
import { json, storeSettings, type StoreCredentials } from '../shared/arguments/store-settings.ts'
import { callWithTimeout } from '../shared/call-with-timeout.ts'
import { wallMs } from '../shared/clock.ts'
import { estimatedRemainingMs, electionStatus, type ElectionStatus } from '../shared/election-status.ts'
import { exitWhenReaderGone, print, printTable, formatShortDuration, table, tell } from '../shared/output.ts'
import { readAllPages, pageSize } from '../shared/read-all-pages.ts'
import { leaderOf, listOf, type AnswerFields } from '../shared/service-answers.ts'
import { isService, noteMissingFolder, noteMissingNamespace, openChosenStore, withStore } from '../shared/store.ts'

export const groupsSettings = { ...storeSettings, json }

/** `tenure groups`: lists the elections of a store. */
export const groupsCommand: Declaration = {
  name: 'groups',
  summary: 'List the elections of a store and their leaders.',
  settings: groupsSettings,
  examples: [
    'tenure groups --store kubernetes://jobs',
    'tenure groups --url https://elections.example.com --json | jq -r .group_id',
  ],
  exitCodes: '0 on success, 2 for invalid usage, 69 if the store is unavailable',
  run: (flags) => groups(flags),
}

/** Lists the elections of a store, page by page. */
async function groups(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(groupsSettings, flags)
  const store = await openChosenStore(settings)
  noteMissingFolder(settings)
  exitWhenReaderGone()
  await withStore(store, () => (isService(store) ? showGroups(store, settings) : showElections(store, settings)))
}

type GroupsSettings = StoreCredentials & { readonly json: boolean; readonly timeout: number }

async function showGroups(service: ServiceStore, settings: GroupsSettings): Promise<void> {
  const listed = await readAllPages<AnswerFields>(settings, async (after) => {
    const query = new URLSearchParams({ limit: String(pageSize), ...(after !== undefined && { after }) })
    const request = { method: 'GET', path: `/v1/groups?${query.toString()}` } as const
    const page = await callWithTimeout(settings.timeout, (call) => service.request(request, call))
    return { items: listOf(page, 'groups'), next: typeof page['next'] === 'string' ? page['next'] : undefined }
  })
  if (settings.json) return
  if (listed.length === 0) return print(`There are no groups${isNamed(settings) ? ' that you may see' : ''}.`)
  const rows = listed.map(({ group_id, leader, highest_term, explicit }) => {
    const held = leaderOf(leader)
    const left = held ? formatShortDuration(held.lease_remaining_ms) : '-'
    return [String(group_id), held?.node_id ?? '-', String(highest_term), left, explicit === true ? 'yes' : 'no']
  })
  print(table(['GROUP', 'LEADER', 'HIGHEST TERM', 'LEASE LEFT', 'DEFINED'], rows))
}

async function showElections(store: LeaseStore, settings: GroupsSettings): Promise<void> {
  if (!store.list) throw usageError(['This store cannot list its elections.'])
  const shown = (record: LeaseRecord) => electionStatus(record.election, record, estimatedRemainingMs(record))
  const finished = ({ leader, previousLeader }: ElectionStatus) => {
    if (leader || !previousLeader) return undefined
    return finishedIn({ checkpoint: previousLeader.checkpoint, ttlMs: previousLeader.leaseDurationMs }, wallMs())
  }
  const listed = await readAllPages(settings, async (after) => {
    const page = await callWithTimeout(settings.timeout, async (call) => store.list?.({ limit: pageSize, after }, call))
    for (const problem of page?.problems ?? []) tell(problem)
    return { items: page?.records.map(shown) ?? [], next: page?.next }
  })
  if (listed.length === 0) await noteMissingNamespace(store, settings.timeout)
  if (settings.json) return
  if (listed.length === 0) return print('There are no elections.')
  const ends = listed.map(finished)
  const rows = listed.map(({ election, leader, previousLeader }, index) => {
    const left = leader ? formatShortDuration(leader.remainingMs ?? 0) : '-'
    const end = ends[index] === undefined ? '-' : `- (${ends[index]})`
    return [election, leader?.holder ?? end, String((leader ?? previousLeader)?.term ?? 0), left]
  })
  printTable(['ELECTION', 'LEADER', 'TERM', 'LEASE LEFT'], rows, (row) => ends[row] !== undefined)
}

/**
 * Whether the caller authenticates. A service without authentication shows every group. Otherwise it shows only the
 * groups that the caller may see.
 */
function isNamed({ tokenFile, certFile }: StoreCredentials): boolean {
  return Boolean(tokenFile ?? certFile ?? process.env['TENURE_TOKEN'])
}
