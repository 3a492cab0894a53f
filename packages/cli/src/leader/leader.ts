import type { LeaseRecord, LeaseStore } from 'tenure'
import { exitCodes } from '../shared/arguments/errors.ts'
import { argument, settingsFrom } from '../shared/arguments/settings.ts'
import { nameOf } from '../shared/arguments/values.ts'
import { callWithTimeout } from '../shared/calls.ts'
import { metadataText, print, printable, printJson, shortTime, table, timestamp, waitText } from '../shared/output.ts'
import { aboutRemainingMs, standingOf, type Standing } from '../shared/election-status.ts'
import { isService, noteMissingFolder, noteMissingNamespace, openChosenStore, whileOpen } from '../shared/store.ts'
import { leaderSettings } from './settings.ts'

/** Prints the current leader of an election. */
export async function leader(name: string, flags: Readonly<Record<string, unknown>>): Promise<void> {
  const election = argument('ELECTION', name, nameOf)
  const settings = settingsFrom(leaderSettings, flags)
  const store = await openChosenStore(settings)
  noteMissingFolder(settings)
  const seen = await whileOpen(store, () => lookInto(store, election, settings.timeout))
  const { record, remainingMs, freeInMs = 0 } = seen
  const standing = { ...standingOf(election, record, remainingMs), ...(freeInMs > 0 && { freeInMs }) }
  if (settings.json) printJson(standing)
  else print(leaderTable(standing))
  if (!standing.leader) process.exitCode = exitCodes.failed
}

interface Seen {
  readonly record: LeaseRecord | undefined
  readonly remainingMs: number
  readonly freeInMs?: number
}

/**
 * Reads the record once. The remaining time comes from the store's own clock if it has one, otherwise from the
 * holder's.
 */
async function lookInto(store: LeaseStore, election: string, timeoutMs: number): Promise<Seen> {
  return callWithTimeout(timeoutMs, async (call) => {
    if (isService(store)) return store.look(election, call)
    const look = store.look ? await store.look(election, call) : { record: await store.read(election, call) }
    const { record, remainingMs = record ? aboutRemainingMs(record) : 0 } = { remainingMs: undefined, ...look }
    if (!record) await noteMissingNamespace(store, timeoutMs)
    return { record, remainingMs }
  })
}

function leaderTable({ election, leader, previousLeader, freeInMs }: Standing): string {
  if (!leader) {
    const before = previousLeader ? ` ${previousLeader.holder} led last, in term ${previousLeader.term}.` : ''
    return printable(`Nobody leads "${election}"${waitText(freeInMs)}.${before}`)
  }
  const { holder, term, leaseDurationMs, remainingMs = 0, acquiredAt, metadata } = leader
  const lease = `${shortTime(remainingMs)} of ${shortTime(leaseDurationMs)}`
  return table(
    ['ELECTION', 'LEADER', 'TERM', 'LEASE LEFT', 'LEADS SINCE', 'METADATA'],
    [[election, holder, String(term), lease, timestamp(acquiredAt), metadataText(metadata)]],
  )
}
