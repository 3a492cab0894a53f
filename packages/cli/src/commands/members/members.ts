import { members as membersOf, type LeaseStore } from 'tenure'
import { exitCodes } from '../../shared/arguments/errors.ts'
import { parseArgument, settingsFrom, type Sources } from '../../shared/arguments/settings.ts'
import { nameOf } from '../../shared/arguments/values.ts'
import { callWithTimeout } from '../../shared/call-with-timeout.ts'
import { showLive } from '../../shared/live-view.ts'
import { exitWhenReaderGone, metadataText, print, printable, printJson, table, timestamp } from '../../shared/output.ts'
import { groupPath } from '../../shared/service.ts'
import { listOf, type AnswerFields } from '../../shared/service-answers.ts'
import { isService, noteMissingFolder, noteMissingNamespace, openChosenStore, withStore } from '../../shared/store.ts'
import { memberAnswerOf, observerOf } from '../../shared/store-members.ts'
import { membersSettings } from './command.ts'

/** Lists the members of an election, in the format of the HTTP API. */
type ListMembers = () => Promise<readonly AnswerFields[]>

/** Lists the members of an election: once, or as a live view on a terminal. */
export async function members(name: string, flags: Sources['flags']): Promise<void> {
  const election = parseArgument('ELECTION', name, nameOf)
  const settings = settingsFrom(membersSettings, flags)
  const { timeout: timeoutMs, observe: observeMs, json } = settings
  const store = await openChosenStore(settings)
  noteMissingFolder(settings)
  exitWhenReaderGone()
  await withStore(store, async () => {
    if (process.stdout.isTTY && !json && observeMs === 0) {
      const list = listOnce(store, election, timeoutMs)
      return showLive(`members of ${election}`, async () => {
        const listed = await list()
        return listed.length === 0 ? [noMembers(election, store)] : membersTable(listed).split('\n')
      })
    }
    const listed = isService(store)
      ? await listOnce(store, election, timeoutMs)()
      : (await membersOf(store, election, { timeoutMs, observeMs })).map((member) => ({ ...memberAnswerOf(member) }))
    if (listed.length === 0 && !isService(store)) await noteMissingNamespace(store, timeoutMs)
    if (listed.length === 0) process.exitCode = exitCodes.failed
    if (json) listed.forEach(printJson)
    else print(listed.length === 0 ? noMembers(election, store) : membersTable(listed))
  })
}

/** Each call lists the members again. Calls to a store that is not a service observe its seats from one to the next. */
function listOnce(store: LeaseStore, election: string, timeoutMs: number): ListMembers {
  if (isService(store)) {
    const request = { method: 'GET', path: `${groupPath(election)}/members` } as const
    return async () => listOf(await callWithTimeout(timeoutMs, (call) => store.request(request, call)), 'members')
  }
  const observer = observerOf(store, election, timeoutMs)
  return async () => {
    await observer.look()
    return observer.members().map((member) => ({ ...memberAnswerOf(member) }))
  }
}

function noMembers(election: string, store: LeaseStore): string {
  const who = isService(store) ? '' : ' Only candidates that run with "present" are listed.'
  return printable(`"${election}" has no members.${who}`)
}

/** Formats members as a table. Columns that only a seat has are left out if no member has one. */
function membersTable(members: readonly AnswerFields[]): string {
  const isSeated = members.some(({ seat }) => seat !== undefined)
  const rows = members.map(({ node_id, role, live, last_heartbeat_ms, metadata, seat, generation, eligible }) => [
    String(node_id),
    String(role),
    typeof live === 'boolean' ? (live ? 'yes' : 'no') : 'unknown',
    typeof last_heartbeat_ms === 'number' ? timestamp(last_heartbeat_ms) : 'never',
    ...(isSeated ? [numberText(seat), numberText(generation), eligibleText(eligible)] : []),
    metadataText(metadata),
  ])
  const sorted = rows.toSorted(([one = ''], [other = '']) => (one < other ? -1 : 1))
  const seated = isSeated ? ['SEAT', 'GENERATION', 'ELIGIBLE'] : []
  return table(['NODE', 'ROLE', 'LIVE', 'LAST SEEN', ...seated, 'METADATA'], sorted)
}

function eligibleText(eligible: unknown): string {
  return typeof eligible === 'boolean' ? (eligible ? 'yes' : 'no') : '-'
}

function numberText(value: unknown): string {
  return typeof value === 'number' ? String(value) : '-'
}
