import { overviewOf, type ShardOverview, type ShardsOverview } from 'tenure/internal'
import { exitCodes } from '../../shared/arguments/errors.ts'
import { parseArgument, settingsFrom, type Sources } from '../../shared/arguments/settings.ts'
import { nameOf } from '../../shared/arguments/values.ts'
import { callWithTimeout } from '../../shared/call-with-timeout.ts'
import { showLive } from '../../shared/live-view.ts'
import { exitWhenReaderGone, metadataText, pluralize, print, printable, printJson, table } from '../../shared/output.ts'
import { noteMissingFolder, noteMissingNamespace, openChosenStore, withStore } from '../../shared/store.ts'
import { observerOf } from '../../shared/store-members.ts'
import { shardsSettings } from './command.ts'

/** How many shards without an owner are listed one by one. */
const mostListed = 10

/** Shows a group of shards: once, or as a live view on a terminal. */
export async function shards(name: string, flags: Sources['flags']): Promise<void> {
  const group = parseArgument('GROUP', name, nameOf)
  const settings = settingsFrom(shardsSettings, flags)
  const { timeout: timeoutMs, json } = settings
  const store = await openChosenStore(settings)
  noteMissingFolder(settings)
  exitWhenReaderGone()
  await withStore(store, async () => {
    const observer = observerOf(store, group, timeoutMs)
    const overview = async () => {
      await observer.look()
      const record = await callWithTimeout(timeoutMs, (call) => store.read(group, call))
      return overviewOf(record, observer.members())
    }
    if (process.stdout.isTTY && !json) {
      return showLive(`shards of ${group}`, async () => overviewLines(group, await overview()))
    }
    const found = await overview()
    if (!found) await noteMissingNamespace(store, timeoutMs)
    if (!found?.shards.every(isOwned)) process.exitCode = exitCodes.failed
    if (json) jsonLines(found).forEach(printJson)
    else print(overviewLines(group, found).join('\n'))
  })
}

function jsonLines(overview: ShardsOverview | undefined): readonly object[] {
  if (!overview) return []
  const { members, shards: all, ...group } = overview
  return [
    { type: 'group', ...group, shards: all.length },
    ...members.map((member) => ({ type: 'member', ...member })),
    ...all.map((shard) => ({ type: 'shard', ...shard })),
  ]
}

function overviewLines(group: string, overview: ShardsOverview | undefined): readonly string[] {
  if (!overview) return [printable(`"${group}" has no shards. No process has started them under this name.`)]
  const { coordinator, members, shards: all } = overview
  const unowned = all.filter((shard) => !isOwned(shard))
  const rows = members
    .toSorted((one, other) => one.seat - other.seat)
    .map(({ identity, live, seat, owned, revoked, metadata }) => [
      identity,
      live ? 'yes' : 'unknown',
      String(seat),
      String(owned),
      String(revoked),
      metadataText(metadata),
    ])
  return [
    `${pluralize(all.length, 'shard')}, ${all.length - unowned.length} owned. ${
      coordinator === undefined ? 'There is no coordinator.' : printable(`Coordinator: ${coordinator}`)
    }`,
    '',
    ...table(['NODE', 'LIVE', 'SEAT', 'OWNED', 'REVOKED', 'METADATA'], rows).split('\n'),
    ...(unowned.length > 0 ? ['', 'Without an owner:'] : []),
    ...unowned.slice(0, mostListed).map((shard) => printable(`  ${whyUnowned(shard, overview)}`)),
    ...(unowned.length > mostListed ? [`  and ${unowned.length - mostListed} more`] : []),
  ]
}

/** The assignment keeps naming a member that is gone until the coordinator has proved that it is gone. */
function isOwned({ state, owner }: ShardOverview): boolean {
  return state === 'owned' && owner !== undefined
}

/** Says which shard has no owner and what it waits for. */
function whyUnowned({ shard, name = String(shard), state, owner }: ShardOverview, overview: ShardsOverview): string {
  if (overview.coordinator === undefined) return `${name}: there is no coordinator`
  if (state === 'unknown') return `${name}: the assignment was lost, so it waits until nobody can own it`
  if (state === 'free') {
    return `${name}: free, ${overview.members.length === 0 ? 'but no member is present' : 'and about to be granted'}`
  }
  return owner === undefined
    ? `${name}: its owner is gone, so it waits until that lease has certainly ended`
    : `${name}: revoked from ${owner}, which must stop its work first`
}
