import { membersLimit } from '@tenure/internal/shard-assignment'
import { pause } from '@tenure/internal/pause'
import { systemClock, type Clock } from '../../common/clock.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { TenureError } from '../../common/errors.ts'
import { checkName } from '../../common/names.ts'
import { checkClock, checkSignal, checkStore } from '../check-values.ts'
import type { KnownLease } from '../election-state.ts'
import type { LeaseRecord, LeaseStore, Metadata } from '../lease-store.ts'
import { expiresAtMs, versionKey } from '../observed-expiry.ts'
import { checkDuration } from '../timings.ts'
import { checkGroup, checkMaxMembers } from './check-presence.ts'
import { decodeOffer, decodeReport, isMember } from './member-record.ts'
import type { PresentMember } from './present-members.ts'
import { readLease, readSeat, type ReadOptions } from './read-lease.ts'
import { defaultMaxMembers, isTaken, observeSeat, seatName, unknownSeat } from './seats.ts'

/**
 * A process that takes part in an election and is present in it. It is identified by its seat and its attempt: a
 * process that lost its seat and took it again is another member.
 *
 * @example
 * const standbys = (await members(store, 'payments')).filter((member) => !member.leads && member.eligible)
 */
export interface Member {
  /** The number of its seat. Seats are reused. */
  readonly seat: number
  readonly identity: string
  /** Unique to this member forever. */
  readonly attempt: string
  /** The metadata of the elector. */
  readonly metadata: Metadata
  /** The number of the rollout. Undefined if the elector has none. */
  readonly generation: number | undefined
  /** Whether the process could lead, as it reported last. */
  readonly eligible: boolean
  /** Whether the election's own record names this process as its leader. */
  readonly leads: boolean
  /**
   * True if its lease has certainly not expired: the store's own clock says so, or a renewal was observed. Undefined if
   * one read of the seat cannot tell, so that the process may have crashed long ago.
   */
  readonly live: true | undefined
  /**
   * The age of its last renewal. A store with its own clock measures it. Otherwise it compares the wall clocks of two
   * machines, so it is for display only.
   */
  readonly lastSeenMs: number
}

/** Options of {@link members}. */
export interface MembersOptions {
  /**
   * How long to observe seats whose members may have crashed. It matters for a store without its own clock, where one
   * read cannot tell. The result is complete when every seat has been renewed or observed for its whole lease, so one
   * lease duration is enough. Default: 0, for one read.
   */
  readonly observeMs?: number | undefined
  /** How many seats to read at least. Default: 32, or as many as a member says that there are. */
  readonly maxMembers?: number | undefined
  /** The timeout of one call. Default: 10 s. */
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<MembersOptions> = {
  observeMs: true,
  maxMembers: true,
  timeoutMs: true,
  signal: true,
  clock: true,
}

/** How many seats are read at the same time. A store may have few connections. */
const concurrentReads = 4
/** How often a seat is read while it is observed, as a part of its lease. */
const observationsPerLease = 15
/** How many seats after the last one in use are read. A process that arrives takes the first free seat. */
const freeSeatsRead = 2

/**
 * Lists the processes that are present in an election: those that run with `present: true`, the leader as well as the
 * standbys. It reads the record of each seat by its name, and each read is linearizable.
 *
 * A released seat has no member, nor has a seat whose lease has expired. On a store without its own clock, one read
 * cannot show that a lease has expired, so a process that crashed is still listed, with `live` undefined. With
 * `observeMs` of one lease duration it is left out.
 *
 * @example
 * for (const { identity, leads, lastSeenMs } of await members(store, 'payments', { observeMs: 15_000 })) {
 *   console.log(identity, leads ? 'leads' : 'waits', lastSeenMs)
 * }
 */
export async function members(store: LeaseStore, group: string, options: MembersOptions = {}): Promise<Member[]> {
  checkStore(store)
  checkName('group', group)
  checkOptions('members()', options, names)
  const { observeMs = 0, maxMembers = defaultMaxMembers, timeoutMs = 10_000, signal, clock = systemClock } = options
  checkDuration('observeMs', observeMs)
  checkDuration('timeoutMs', timeoutMs, 1)
  checkMaxMembers(maxMembers)
  checkGroup(group, maxMembers)
  checkSignal(signal)
  checkClock(clock)
  if (!store.terms) {
    throw new TenureError(
      'TERMS_REQUIRED',
      `The members of "${group}" cannot be listed, because its store does not keep terms. Use a store with durable terms.`,
    )
  }
  const observer = new MemberObserver(store, group, { maxMembers, clock, timeoutMs, signal })
  await observer.look()
  const untilMs = clock.monotonicMs() + observeMs
  const ended = signal ?? new AbortController().signal
  for (let waitMs = observer.nextLookMs(); waitMs < Infinity; waitMs = observer.nextLookMs()) {
    const leftMs = untilMs - clock.monotonicMs()
    if (leftMs <= 0) break
    await pause(clock, Math.min(waitMs, leftMs), ended)
    ended.throwIfAborted()
    await observer.look({ undecidedOnly: true })
  }
  // Seats that were decided early may have changed since, and their leases may be shorter than this observation.
  if (observeMs > 0) await observer.look()
  return observer.members()
}

interface ObservedSeat {
  readonly known: KnownLease
  /**
   * The version in the first read, of a member that may have crashed before. Undefined once a renewal has been
   * observed.
   */
  readonly firstKey: string | undefined
  readonly remainingMs: number | undefined
  /** When the last read was sent. */
  readonly readAtMs: number
  /** Whether the record could be read. Otherwise the seat is in use by something unknown, and has no member. */
  readonly isValid: boolean
}

/** Whether a lease has certainly not expired: the store's own clock says so, or a renewal was observed. */
function isLive({ firstKey, remainingMs }: ObservedSeat): boolean {
  return remainingMs !== undefined || firstKey === undefined
}

/** Whether a process that arrives may skip the seat. */
function isInUse({ known: { view }, isValid }: ObservedSeat): boolean {
  return !isValid || (view !== undefined && !view.record?.released)
}

/** Observes the seats of a group over time. */
export class MemberObserver {
  readonly #store: LeaseStore
  readonly #group: string
  readonly #read: ReadOptions
  readonly #seats: ObservedSeat[] = []
  #seatCount: number
  #leader: LeaseRecord | undefined
  /** Where the next `readNext()` begins. */
  #next = 0
  /** Whether `readNext()` has read every seat at least once. */
  #hasReadAll = false

  constructor(
    store: LeaseStore,
    group: string,
    { maxMembers = defaultMaxMembers, ...read }: ReadOptions & { readonly maxMembers?: number | undefined },
  ) {
    this.#store = store
    this.#group = group
    this.#read = read
    this.#seatCount = maxMembers
  }

  /** Reads the seats and the leader. With `undecidedOnly`, it reads only the seats whose members may have crashed. */
  async look({ undecidedOnly = false } = {}): Promise<void> {
    for (let from = 0; from < this.#seatCount;) {
      const wanted = Array.from({ length: this.#seatCount - from }, (_, index) => from + index)
      from = this.#seatCount
      const seats = undecidedOnly ? wanted.filter((seat) => this.#isUndecided(seat)) : wanted
      const next = seats.values()
      // All readers take the next seat from the same list.
      await Promise.all(Array.from({ length: Math.min(concurrentReads, seats.length) }, () => this.#lookAt(next)))
    }
    const { record, remainingMs } = await readLease(this.#store, this.#group, this.#read)
    this.#leader = record?.released || remainingMs === 0 ? undefined : record
  }

  /**
   * Reads the seats up to the last one that is not released and the two after it, one after another and without
   * `ownSeat`. It begins where the last call ended, and reads at most `atMost` seats and none twice. The first round
   * reads all seats, because those in use may be anywhere.
   *
   * A seat that was not read for a whole lease is as good as unknown: its member may have renewed and crashed since.
   */
  async readNext(atMost: number, ownSeat?: number): Promise<void> {
    for (let reads = 0; reads < atMost; this.#next += 1) {
      if (this.#next >= this.#seatCount) this.#hasReadAll = true
      if (this.#next >= this.#usedSeats(ownSeat)) {
        this.#next = 0
        return
      }
      if (this.#next === ownSeat) continue
      await this.#lookAt([this.#next], { startsAgain: true })
      reads += 1
    }
  }

  #usedSeats(ownSeat = -1): number {
    if (!this.#hasReadAll) return this.#seatCount
    // An expired seat also counts as used, because a new process skips the seat until it has observed it for a whole
    // lease.
    const last = this.#seats.findLastIndex((seat) => seat && isInUse(seat))
    return Math.min(this.#seatCount, Math.max(last, ownSeat) + 1 + freeSeatsRead)
  }

  async #lookAt(seats: Iterable<number>, { startsAgain = false } = {}): Promise<void> {
    for (const seat of seats) {
      const readAtMs = this.#read.clock.monotonicMs()
      const status = await readSeat(this.#store, seatName(this.#group, seat), this.#read)
      if (!status) {
        this.#seats[seat] = {
          known: unknownSeat,
          firstKey: undefined,
          remainingMs: undefined,
          readAtMs,
          isValid: false,
        }
        continue
      }
      const { record, remainingMs } = status
      const before = this.#seats[seat]?.isValid ? this.#seats[seat] : undefined
      const at = { nowMs: this.#read.clock.monotonicMs(), ownDurationMs: record?.leaseDurationMs ?? 0 }
      const key = record && versionKey(record)
      const isOld = startsAgain && before !== undefined && at.nowMs - before.readAtMs >= at.ownDurationMs
      const isFirst = before === undefined || before.firstKey === key || isOld
      this.#seats[seat] = {
        known: observeSeat(before?.known ?? unknownSeat, status, at),
        firstKey: isFirst ? key : undefined,
        remainingMs,
        readAtMs,
        isValid: true,
      }
      // The member's group may have more seats than this reader expects.
      if (record) this.#seatCount = Math.max(this.#seatCount, Math.min(decodeOffer(record).maxMembers, membersLimit))
    }
  }

  /** The time until the undecided seats must be read again. Infinity if all seats are decided. */
  nextLookMs(): number {
    const nowMs = this.#read.clock.monotonicMs()
    const waits = this.#seats.flatMap(({ known: { view } }, seat) => {
      if (!view || !this.#isUndecided(seat)) return []
      const expiryMs = view.seenAtMs + view.holdsForMs - nowMs
      return [Math.max(1, Math.min(view.holdsForMs / observationsPerLease, expiryMs))]
    })
    return Math.min(...waits, Infinity)
  }

  #isUndecided(seat: number): boolean {
    const observed = this.#seats[seat]
    return observed !== undefined && !isLive(observed) && isTaken(observed.known, this.#read.clock.monotonicMs())
  }

  /** How many seats the group has: the largest number that a member states, or the default if none does. */
  get seatCount(): number {
    const nowMs = this.#read.clock.monotonicMs()
    const stated = this.#seats.map(({ known }) => {
      const offer = known.view?.record && isTaken(known, nowMs) ? decodeOffer(known.view.record) : undefined
      return offer && isMember(offer) ? Math.min(offer.maxMembers, membersLimit) : 0
    })
    return Math.max(0, ...stated) || defaultMaxMembers
  }

  /** The holders of seats as observed last, with requests, and how long each of them counts without another read. */
  present(): PresentMember[] {
    const nowMs = this.#read.clock.monotonicMs()
    return this.#seats.flatMap((seat) => {
      const { known } = seat
      const { view } = known
      if (!view?.record || !isTaken(known, nowMs)) return []
      const { holder: identity } = view.record
      const offer = decodeOffer(view.record)
      if (offer.cleaning) return []
      const { generation, handOverTo, ofTerm } = offer
      const { eligible } = decodeReport(view.record)
      const untilMs = Math.min(view.retryAtMs ?? Infinity, expiresAtMs(view))
      return [
        { identity, generation, eligible, live: isLive(seat), handOverTo, ofTerm, untilMs } satisfies PresentMember,
      ]
    })
  }

  /** The members as observed last. */
  members(): Member[] {
    const nowMs = this.#read.clock.monotonicMs()
    return this.#seats.flatMap((observed, seat) => {
      const { known, remainingMs } = observed
      const record = known.view?.record
      if (!record || !isTaken(known, nowMs)) return []
      const offer = decodeOffer(record)
      if (!isMember(offer)) return []
      const { generation, metadata } = offer
      const ageMs =
        remainingMs === undefined ? this.#read.clock.wallMs() - record.renewedAt : record.leaseDurationMs - remainingMs
      return [
        {
          seat,
          identity: record.holder,
          attempt: record.attempt,
          metadata,
          generation,
          eligible: decodeReport(record).eligible,
          leads: this.#leader?.holder === record.holder,
          live: isLive(observed) || undefined,
          lastSeenMs: Math.max(0, ageMs),
        } satisfies Member,
      ]
    })
  }
}
