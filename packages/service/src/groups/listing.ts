import { TimeSlice } from '../common/clock.ts'
import type { Definition, GroupView, LeaseView, MaybePromise, Page, PageOptions } from './port.ts'
import { isReservedGroup } from './reserved-groups.ts'

/** How many ids one page may skip. */
const maxExamined = 10_000
/** How many ids are examined before other callbacks may run. */
const idsAtOnce = 256
/** The size limit of a page, counting only text from clients. */
const maxPageBytes = 256 * 1024

/** The source of the groups on a page. */
export interface GroupListing {
  /** Returns the ids of stored groups in order, including deleted ones. */
  idsAfter(groupId: string | undefined, most: number): MaybePromise<readonly string[]>
  /**
   * Returns views in the order of the ids, undefined for groups that do not exist. Views at the end may be left out,
   * but not all of them.
   */
  views(groupIds: readonly string[]): Promise<readonly (GroupView | undefined)[]>
}

/** Returns one page of groups, by id. */
export async function pageOf(
  listing: GroupListing,
  { after, limit, isShown = () => true }: PageOptions,
): Promise<Page> {
  const groups: GroupView[] = []
  const timeSlice = new TimeSlice()
  let bytes = 0
  let last = after
  let looked = 0
  for (;;) {
    const found = await listing.idsAfter(last, idsAtOnce)
    // The service's own groups are listed only for a caller that starts among them.
    const ids = after !== undefined && isReservedGroup(after) ? found : found.filter((id) => !isReservedGroup(id))
    if (ids.length === 0) return { groups, next: undefined, passedOver: looked - groups.length }
    const wanted = ids.filter((id) => isShown(id))
    const views = new Map<string, GroupView | undefined>()
    const viewOf = async (id: string) => {
      if (!views.has(id)) {
        const from = wanted.indexOf(id)
        const some = wanted.slice(from, from + limit - groups.length + 1)
        for (const [index, view] of (await listing.views(some)).entries()) views.set(some[index] as string, view)
      }
      return views.get(id)
    }
    const shownIds = new Set(wanted)
    for (const id of ids) {
      const shown = shownIds.has(id) ? await viewOf(id) : undefined
      // A full page continues until it finds a group for the next page.
      const isFull = groups.length === limit || bytes >= maxPageBytes
      if (looked === maxExamined || (shown && isFull)) {
        return { groups, next: last, passedOver: looked - groups.length }
      }
      if (shown) {
        groups.push(shown)
        bytes += textBytes(shown.lease, shown.definition)
      }
      last = id
      looked += 1
    }
    if (timeSlice.isOver) await timeSlice.pause()
  }
}

/** Returns the first views, as many as fit on a page. A longer list may be too large to be forwarded. */
export function fitting<T>(views: readonly T[], bytesOf: (view: T) => number): readonly T[] {
  let bytes = 0
  const last = views.findIndex((view) => {
    bytes += bytesOf(view)
    return bytes >= maxPageBytes
  })
  return last === -1 ? views : views.slice(0, last + 1)
}

/** Returns the size of the text that clients put into a lease and into its group's definition. */
export function textBytes(lease: LeaseView | undefined, definition?: Definition): number {
  const nodes = definition?.allowedNodes ?? []
  // Metadata is already JSON. A character of a checkpoint may take six bytes in JSON.
  const texts = lease ? lease.metadata.length + JSON.stringify(lease.checkpoint).length : 0
  return texts + nodes.reduce((sum, node) => sum + node.length, 0)
}
