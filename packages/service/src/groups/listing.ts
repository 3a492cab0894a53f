import { Pace } from '../clock.ts'
import type { PageOptions } from './groups.ts'
import type { Group } from './group.ts'
import type { GroupTable } from './group-table.ts'

/** Ids that one page may pass over. */
const mostLooked = 10_000
/** Ids that are looked at before others may run. */
const idsAtOnce = 256
/** What a page may hold of what people wrote. */
const mostPageBytes = 256 * 1024

/** One page of groups, by id. */
export interface GroupPage {
  readonly groups: readonly Group[]
  readonly next: string | undefined
  readonly passedOver: number
}

/** The groups of a page, which others may change as soon as it is there. */
export async function pageOf(
  table: GroupTable,
  { after, limit, isShown = () => true }: PageOptions,
): Promise<GroupPage> {
  const groups: Group[] = []
  const pace = new Pace()
  let bytes = 0
  let last = after
  let looked = 0
  for (;;) {
    const ids = table.idsAfter(last, idsAtOnce)
    if (ids.length === 0) return { groups, next: undefined, passedOver: looked - groups.length }
    for (const id of ids) {
      const group = table.get(id)
      const shown = group && !group.deleted && isShown(id) ? group : undefined
      // A full page looks on until there is something for the next one.
      const isFull = groups.length === limit || bytes >= mostPageBytes
      if (looked === mostLooked || (shown && isFull)) {
        return { groups, next: last, passedOver: looked - groups.length }
      }
      if (shown) {
        groups.push(shown)
        bytes += textBytes(shown)
      }
      last = id
      looked += 1
    }
    if (pace.isOver) await pace.pause()
  }
}

function textBytes({ lease, carry, definition }: Group): number {
  const nodes = definition?.allowedNodes ?? []
  return (lease?.metadata.length ?? 0) + carry.length + nodes.reduce((sum, node) => sum + node.length, 0)
}
