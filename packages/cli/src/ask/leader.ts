import type { LeaseRecord, LeaseStore } from 'tenure'
import { within } from '../calls.ts'
import { wallMs } from '../clock.ts'
import { leaderSettings } from '../commands/leader.ts'
import { exitCodes } from '../errors.ts'
import { failureOf } from '../failures.ts'
import { metadataText, print, printable, printJson, shortTime, table, timestamp } from '../output.ts'
import { argument, settingsFrom } from '../settings.ts'
import { standingOf, type Standing } from '../standing.ts'
import { isService, noteMissingFolder, openChosenStore } from '../store.ts'
import { nameOf } from '../values.ts'

/** Prints who leads now. */
export async function leader(name: string, flags: Readonly<Record<string, unknown>>): Promise<void> {
  const election = argument('ELECTION', name, nameOf)
  const settings = settingsFrom(leaderSettings, flags)
  const store = await openChosenStore(settings)
  noteMissingFolder(settings)
  const { record, remainingMs } = await lookInto(store, election, settings.timeout)
  const standing = standingOf(election, record, remainingMs)
  if (settings.json) printJson(standing)
  else print(leaderTable(standing))
  if (!standing.leader) process.exitCode = exitCodes.failed
}

interface Sight {
  readonly record: LeaseRecord | undefined
  readonly remainingMs: number
}

/**
 * A service knows what is left of a lease. Of all others one look shows the time of the last renewal, by the holder's
 * clock. That is enough to show it, and no decision is made on it.
 */
async function lookInto(store: LeaseStore, election: string, timeoutMs: number): Promise<Sight> {
  try {
    return await within(timeoutMs, async (call) => {
      if (isService(store)) return store.look(election, call)
      const record = await store.read(election, call)
      return { record, remainingMs: record ? aboutRemainingMs(record) : 0 }
    })
  } catch (error) {
    throw failureOf(error)
  } finally {
    await store.close?.()
  }
}

function aboutRemainingMs({ renewedAt, leaseDurationMs }: LeaseRecord): number {
  return Math.min(leaseDurationMs, renewedAt + leaseDurationMs - wallMs())
}

function leaderTable({ election, leader, previousLeader }: Standing): string {
  if (!leader) {
    const before = previousLeader ? ` ${previousLeader.holder} did last, in term ${previousLeader.term}.` : ''
    return printable(`Nobody leads ${election}.${before}`)
  }
  const { holder, term, leaseDurationMs, remainingMs = 0, acquiredAt, metadata } = leader
  const lease = `${shortTime(remainingMs)} of ${shortTime(leaseDurationMs)}`
  return table(
    ['ELECTION', 'LEADER', 'TERM', 'LEASE LEFT', 'LEADS SINCE', 'METADATA'],
    [[election, holder, String(term), lease, timestamp(acquiredAt), metadataText(metadata)]],
  )
}
