import type { LeaseRecord, LeaseStore } from 'tenure'
import type { Declaration } from '../shared/arguments/declare.ts'
import { exitCodes } from '../shared/arguments/errors.ts'
import { parseArgument, settingsFrom } from '../shared/arguments/settings.ts'
import { json, storeSettings } from '../shared/arguments/store-settings.ts'
import { nameOf } from '../shared/arguments/values.ts'
import { callWithTimeout } from '../shared/call-with-timeout.ts'
import { estimatedRemainingMs, electionStatus, type ElectionStatus } from '../shared/election-status.ts'
import {
  metadataText,
  print,
  printable,
  printJson,
  formatShortDuration,
  table,
  timestamp,
  waitText,
} from '../shared/output.ts'
import { isService, noteMissingFolder, noteMissingNamespace, openChosenStore, withStore } from '../shared/store.ts'

export const leaderSettings = { ...storeSettings, json }

/** `tenure leader`: shows the current leader. */
export const leaderCommand: Declaration = {
  name: 'leader',
  argument: '<election>',
  summary: 'Show who leads an election.',
  settings: leaderSettings,
  examples: [
    'tenure leader nightly-report --store file:///var/lib/leases',
    'tenure leader nightly-report --store https://elections.example.com --json',
  ],
  exitCodes: '0 if the election has a leader, 1 if it has none, 2 for invalid usage, 69 if the store is unavailable',
  run: (flags, name) => leader(name, flags),
}

/** Prints the current leader of an election. */
async function leader(name: string, flags: Readonly<Record<string, unknown>>): Promise<void> {
  const election = parseArgument('ELECTION', name, nameOf)
  const settings = settingsFrom(leaderSettings, flags)
  const store = await openChosenStore(settings)
  noteMissingFolder(settings)
  const seen = await withStore(store, () => lookInto(store, election, settings.timeout))
  const { record, remainingMs, freeInMs = 0 } = seen
  const standing = { ...electionStatus(election, record, remainingMs), ...(freeInMs > 0 && { freeInMs }) }
  if (settings.json) printJson(standing)
  else print(leaderTable(standing))
  if (!standing.leader) process.exitCode = exitCodes.failed
}

interface SeenLeader {
  readonly record: LeaseRecord | undefined
  readonly remainingMs: number
  readonly freeInMs?: number
}

/**
 * Reads the record once. The remaining time comes from the store's own clock if it has one, otherwise from the
 * holder's.
 */
async function lookInto(store: LeaseStore, election: string, timeoutMs: number): Promise<SeenLeader> {
  return callWithTimeout(timeoutMs, async (call) => {
    if (isService(store)) return store.look(election, call)
    const look = store.look ? await store.look(election, call) : { record: await store.read(election, call) }
    const { record, remainingMs = record ? estimatedRemainingMs(record) : 0 } = { remainingMs: undefined, ...look }
    if (!record) await noteMissingNamespace(store, timeoutMs)
    return { record, remainingMs }
  })
}

function leaderTable({ election, leader, previousLeader, freeInMs }: ElectionStatus): string {
  if (!leader) {
    const before = previousLeader ? ` ${previousLeader.holder} led last, in term ${previousLeader.term}.` : ''
    return printable(`Nobody leads "${election}"${waitText(freeInMs)}.${before}`)
  }
  const { holder, term, leaseDurationMs, remainingMs = 0, acquiredAt, metadata } = leader
  const lease = `${formatShortDuration(remainingMs)} of ${formatShortDuration(leaseDurationMs)}`
  return table(
    ['ELECTION', 'LEADER', 'TERM', 'LEASE LEFT', 'LEADS SINCE', 'METADATA'],
    [[election, holder, String(term), lease, timestamp(acquiredAt), metadataText(metadata)]],
  )
}
