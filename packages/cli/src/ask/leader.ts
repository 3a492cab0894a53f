import type { LeaseRecord, LeaseStore } from 'tenure'
import { within } from '../calls.ts'
import { leaderSettings } from '../commands/leader.ts'
import { exitCodes } from '../errors.ts'
import { failureOf } from '../failures.ts'
import { metadataText, print, printJson, shortTime, table, timestamp } from '../output.ts'
import { argument, settingsFrom } from '../settings.ts'
import { aboutRemainingMs, standingOf, type Standing } from '../standing.ts'
import { openChosenStore } from '../store.ts'
import { nameOf } from '../values.ts'

/** Prints who leads now. */
export async function leader(name: string, flags: Readonly<Record<string, unknown>>): Promise<void> {
  const election = argument('ELECTION', name, nameOf)
  const settings = settingsFrom(leaderSettings, flags)
  const store = await openChosenStore(settings)
  const record = await readFrom(store, election, settings.timeout)
  const standing = standingOf(election, record, record ? aboutRemainingMs(store, record) : 0)
  if (settings.json) printJson(standing)
  else print(leaderTable(standing))
  if (!standing.leader) process.exitCode = exitCodes.failed
}

async function readFrom(store: LeaseStore, election: string, timeoutMs: number): Promise<LeaseRecord | undefined> {
  try {
    return await within(timeoutMs, (call) => store.read(election, call))
  } catch (error) {
    throw failureOf(error)
  } finally {
    await store.close?.()
  }
}

function leaderTable({ election, leader, previousLeader }: Standing): string {
  if (!leader) {
    const before = previousLeader ? ` ${previousLeader.holder} did last, in term ${previousLeader.term}.` : ''
    return `Nobody leads ${election}.${before}`
  }
  const { holder, term, leaseDurationMs, remainingMs = 0, acquiredAt, metadata } = leader
  const lease = `${shortTime(remainingMs)} of ${shortTime(leaseDurationMs)}`
  return table(
    ['ELECTION', 'LEADER', 'TERM', 'LEASE LEFT', 'LEADS SINCE', 'METADATA'],
    [[election, holder, String(term), lease, timestamp(acquiredAt), metadataText(metadata)]],
  )
}
