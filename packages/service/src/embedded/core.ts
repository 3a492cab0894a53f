import type { Clock } from 'tenure'
import { systemClock } from '../clock.ts'
import { ServiceError } from '../errors.ts'
import type { Change } from '../feed.ts'
import type { Follower, Policy, Verdict } from '../state.ts'
import type { Disk } from './disk.ts'
import { firstTerm, Group, storedOf, viewOf, type Lease } from './group.ts'
import type { Stored } from './records.ts'
import { ServingClock } from './serving-clock.ts'

/** What the embedded state is opened with. */
export interface EmbeddedStateOptions {
  readonly directory: string
  readonly clock: Clock
  /** For groups that nobody defined. */
  readonly policy: Policy
  /** Whether a campaign brings a group into being. */
  readonly implicitGroups: boolean
  readonly maxGroups: number
  readonly maxMembersPerGroup: number
  readonly memberTtlMs: number
  /** The data come from a backup: skip all terms that may have been granted since. */
  readonly afterRestore: boolean
  /** Told of each write of a group when it has ended, either way. */
  readonly onWrite?: ((tookMs: number, durable: boolean) => void) | undefined
}

const patienceMs = 5_000

/** The groups in memory, how one of them is changed, and those who are told. */
export class Core {
  readonly groups = new Map<string, Group>()
  readonly clock: ServingClock
  readonly disk: Disk
  readonly options: EmbeddedStateOptions
  readonly followers = new Set<Follower>()
  closed = false
  /** Versions of one run differ from those of every other. */
  readonly #run: string
  /** Groups whose newest lease is live here, while the disk may say that it has ended. */
  readonly #doubtful = new Set<Group>()

  constructor(disk: Disk, options: EmbeddedStateOptions) {
    this.disk = disk
    this.clock = new ServingClock(options.clock)
    this.options = options
    this.#run = options.clock.randomId()
  }

  create(groupId: string): Group {
    if (this.groups.size >= this.options.maxGroups) {
      throw new ServiceError('RATE_LIMITED', `This service keeps at most ${this.options.maxGroups} groups.`)
    }
    const group = new Group(groupId, firstTerm(this.disk.restores))
    this.groups.set(groupId, group)
    return group
  }

  /** What came to nothing leaves no group behind. */
  forgetIfEmpty(group: Group): void {
    const used =
      group.lease || group.definition || group.busy || group.line?.size || group.term > firstTerm(this.disk.restores)
    if (!used && this.groups.get(group.id) === group) this.groups.delete(group.id)
  }

  /** Throws unless the group is there for those who look. */
  known(groupId: string): Group {
    const group = this.groups.get(groupId)
    if (group && !group.deleted) return group
    throw new ServiceError('NOT_FOUND', `There is no group "${groupId}".`)
  }

  checkAllowed(group: Group, nodeId: string): void {
    const allowed = group.definition?.allowedNodes
    if (!allowed || allowed.includes(nodeId)) return
    throw new ServiceError('UNAUTHORIZED', `Node "${nodeId}" is not allowed in group "${group.id}".`)
  }

  /** What the disk is to keep of a group as it is. */
  stored(group: Group, lease: Lease | undefined = group.lease): Stored {
    // A hold that is over must not be imposed again by the next restart.
    group.freeInMs(this.clock.monotonicMs())
    return storedOf(group, lease)
  }

  /**
   * Writes the whole of a group, then lets `apply` make it true in memory. Until both are done the group is busy:
   * whoever is to decide about it looks at `busy` in the same breath in which it decides.
   *
   * Where the write fails, memory stays as it was, and the disk has the record from before or, if the failure came in
   * the middle of a commit, perhaps the new one. Nobody was told, and after a crash each kind may be found there:
   *
   * - a grant: its term was burnt before, so no other gets it. The lease is honoured for its duration, from the
   *   restart on, though nobody knows of it. It was only tried when nobody else's lease ran;
   * - a longer promise, a carry: the lease found is the one that memory has, promised for longer;
   * - a definition: the next campaign keeps to it;
   * - an end: memory still has the lease, and would let its holder renew it, while a restart would let another lead.
   *   Such a group is doubtful until something else was written; before that its holder is confirmed nothing.
   */
  commit<T>(group: Group, stored: Stored, apply: () => T): Promise<T> {
    if (this.closed) throw new ServiceError('BACKEND_UNAVAILABLE', 'The service is stopping.')
    const startedMs = this.clock.monotonicMs()
    const committing = this.disk.write(group.id, stored).then(
      () => {
        this.options.onWrite?.(this.clock.monotonicMs() - startedMs, true)
        group.busy = undefined
        this.#doubtful.delete(group)
        return apply()
      },
      (error: unknown) => {
        this.options.onWrite?.(this.clock.monotonicMs() - startedMs, false)
        group.busy = undefined
        if (stored.ended) this.#doubtful.add(group)
        throw error
      },
    )
    group.busy = committing
    return patiently(committing)
  }

  /** Rejects while nothing can be made durable. */
  check(): Promise<void> {
    return patiently(this.disk.check())
  }

  isDoubtful(group: Group): boolean {
    return this.#doubtful.has(group)
  }

  /** Waits for the write under way, if there is one. Meanwhile another may have begun: ask again before deciding. */
  async settled({ busy }: Group): Promise<void> {
    if (busy) await patiently(busy.catch(() => undefined))
  }

  verdict(group: Group, granted: boolean): Verdict {
    const { lease } = group
    const nowMs = this.clock.monotonicMs()
    return {
      granted,
      // Who led a group that was deleted is nobody's business; its term stays.
      lease: lease && !group.deleted ? viewOf(lease, nowMs, this.#run) : undefined,
      highestTerm: group.term,
      freeInMs: group.freeInMs(nowMs),
    }
  }

  versionOf(lease: Lease): string {
    return viewOf(lease, 0, this.#run).version
  }

  tell(type: Change['type'], lease: Lease, reason?: NonNullable<Change['reason']>): void {
    const change = this.#change(type, lease, reason)
    for (const follower of this.followers) follower.onChange(change)
  }

  tellRenewed(lease: Lease): void {
    for (const follower of this.followers) {
      if (follower.wantsRenewals()) follower.onChange(this.#change('RENEWED', lease))
    }
  }

  #change(type: Change['type'], lease: Lease, reason?: Change['reason']): Change {
    return {
      type,
      groupId: lease.group.id,
      lease: viewOf(lease, this.clock.monotonicMs(), this.#run),
      atMs: this.clock.wallMs(),
      ...(reason && { reason }),
    }
  }
}

/** A disk that answers neither way for long: whoever asked is told that it is not known. The write itself goes on. */
export function patiently<T>(write: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    // Real time: no clock that a test has in hand moves a disk.
    const timer = systemClock.setTimer(patienceMs, () => {
      const message = `The data directory has not answered for ${patienceMs} ms. Whether it was done is not known.`
      reject(new ServiceError('BACKEND_UNAVAILABLE', message))
    })
    write.then(
      (value) => {
        timer.cancel()
        resolve(value)
      },
      (error: Error) => {
        timer.cancel()
        reject(error)
      },
    )
  })
}
