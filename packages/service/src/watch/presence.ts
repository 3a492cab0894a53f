import type { Clock, Timer } from 'tenure'
import type { Groups, OpenWatch } from '../groups/port.ts'
import { maxWatchesPerReport } from '../groups/members.ts'

/**
 * How often open watches are reported. This is well below the time for which an open watch counts as a heartbeat, so
 * that one lost message changes nothing.
 */
const everyMs = 5_000

/**
 * The watches on this replica that name their node. A standby that waits for an event sends nothing for hours, and
 * would look dead without these reports. The groups may be on another replica, so this class reports open watches to
 * that replica periodically, and the replica drops those that are no longer reported. Nothing else depends on these
 * reports, and a lost message is not repeated.
 */
export class WatchPresence {
  readonly #groups: Pick<Groups, 'reportWatches'>
  readonly #clock: Clock
  /** How many watches each node has open, by group. */
  readonly #open = new Map<string, Map<string, number>>()
  #timer: Timer | undefined

  constructor(groups: Pick<Groups, 'reportWatches'>, clock: Clock) {
    this.#groups = groups
    this.#clock = clock
  }

  /** Reports an open watch. Returns a function that ends the presence and may be called again. */
  enter(groupIds: readonly string[], nodeId: string): () => void {
    for (const groupId of groupIds) {
      const nodes = this.#open.get(groupId) ?? new Map<string, number>()
      this.#open.set(groupId, nodes.set(nodeId, (nodes.get(nodeId) ?? 0) + 1))
    }
    void this.#tell(groupIds.map((groupId) => [groupId, nodeId]))
    if (!this.#timer) this.#timer = this.#later()
    let hasLeft = false
    return () => {
      if (hasLeft) return
      hasLeft = true
      for (const groupId of groupIds) this.#leave(groupId, nodeId)
    }
  }

  #leave(groupId: string, nodeId: string): void {
    const nodes = this.#open.get(groupId)
    const others = (nodes?.get(nodeId) ?? 1) - 1
    if (others > 0) nodes?.set(nodeId, others)
    else nodes?.delete(nodeId)
    if (nodes?.size === 0) this.#open.delete(groupId)
  }

  #later(): Timer {
    return this.#clock.setTimer(everyMs, () => void this.#tellAll(), { background: true })
  }

  async #tellAll(): Promise<void> {
    const open: OpenWatch[] = []
    for (const [groupId, nodes] of this.#open) for (const nodeId of nodes.keys()) open.push([groupId, nodeId])
    await this.#tell(open)
    this.#timer = this.#open.size > 0 ? this.#later() : undefined
  }

  /** Reports in parts, one after another, so that other requests are answered in between. */
  async #tell(open: readonly OpenWatch[]): Promise<void> {
    for (let from = 0; from < open.length; from += maxWatchesPerReport) {
      try {
        await this.#groups.reportWatches(open.slice(from, from + maxWatchesPerReport))
      } catch {
        // No replica is active, or it cannot be reached. The next round is in a few seconds.
      }
    }
  }
}
