import type { TermEndReason, LeaseAnswer, PageEvent } from '@tenure/page/model/answers'
import { observe, type LeaseRecord, type LeaseStore, type Observation } from 'tenure'
import { setBackgroundTimer, now, wallMs } from '../../shared/clock.ts'
import { estimatedRemainingMs } from '../../shared/election-status.ts'

/** How often to poll a store without a watch, for each election that a page shows. */
const pollIntervalMs = 2_000
/**
 * How long an election stays observed after its last page has closed. A reload or a quick return then finds the
 * observed state.
 */
const observeAfterLastPageMs = 10_000
/** The number of changes kept. Beyond it, the oldest are dropped. */
const mostChanges = 16_384

interface SightingsOptions {
  readonly store: LeaseStore
  readonly timeoutMs: number
  onError(error: unknown): void
  onAnswer(): void
}

type ElectionListener = (event: PageEvent) => void

/** Observes elections on behalf of all pages. Each election is observed once, and only while a page shows it. */
export class Observations {
  readonly #options: SightingsOptions
  readonly #watched = new Map<string, ObservedElection>()
  readonly #changes: PageEvent[] = []
  /** Whether the last call was answered. */
  isHealthy = true

  constructor(options: SightingsOptions) {
    this.#options = options
  }

  /**
   * Reports the state of an election as soon as it is known, and every change after that. Returns a function that ends
   * the reports.
   */
  follow(election: string, listener: ElectionListener): () => void {
    const watched = this.#watched.get(election) ?? this.#watch(election)
    watched.listeners.add(listener)
    const { newest } = watched
    if (newest) listener(stateOf(election, newest, now().machineMs - watched.newestMs))
    return () => {
      watched.listeners.delete(listener)
      setBackgroundTimer(observeAfterLastPageMs, () => {
        if (watched.listeners.size > 0 || this.#watched.get(election) !== watched) return
        this.#watched.delete(election)
        watched.end.abort()
      })
    }
  }

  /** Returns the newest observed changes of these elections, oldest first. */
  changesOf(elections: ReadonlySet<string>, most: number): PageEvent[] {
    return this.#changes.filter(({ group_id = '' }) => elections.has(group_id)).slice(-most)
  }

  /** Records whether a call that was made elsewhere got an answer. */
  answered(isAnswer: boolean): void {
    this.isHealthy = isAnswer
    if (isAnswer) this.#options.onAnswer()
  }

  close(): void {
    for (const { end } of this.#watched.values()) end.abort()
    this.#watched.clear()
  }

  #watch(election: string): ObservedElection {
    const watched = new ObservedElection()
    this.#watched.set(election, watched)
    void this.#run(election, watched)
    return watched
  }

  async #run(election: string, watched: ObservedElection): Promise<void> {
    const { store, timeoutMs, onError } = this.#options
    const { signal } = watched.end
    const failed = (error: unknown) => {
      this.isHealthy = false
      onError(error)
    }
    for await (const item of observe(store, election, { signal, timeoutMs, pollIntervalMs, onError: failed })) {
      if (item.change !== 'expired') this.answered(true)
      const events = eventsOf(election, item, watched.newest, store.expiry)
      watched.newest = item
      watched.newestMs = now().machineMs
      for (const event of events) {
        if (event.type === 'LEADER_CHANGED' || event.type === 'LEADER_LOST') this.#keep(event)
        for (const listener of watched.listeners) listener(event)
      }
    }
  }

  #keep({ leader: _leader, previous_leader: _previous, ...change }: PageEvent): void {
    this.#changes.push(change)
    if (this.#changes.length > mostChanges) this.#changes.splice(0, mostChanges / 4)
  }
}

class ObservedElection {
  readonly listeners = new Set<ElectionListener>()
  readonly end = new AbortController()
  newest: Observation | undefined
  newestMs = 0
}

const endings: Partial<Record<Observation['change'], TermEndReason>> = {
  released: 'resigned',
  expired: 'expired',
  deleted: 'deleted',
}

/** Converts an observation to events of the HTTP API. */
function eventsOf(
  election: string,
  item: Observation,
  before: Observation | undefined,
  expiry: LeaseStore['expiry'],
): PageEvent[] {
  const { change, record, remainingMs } = item
  const reason = endings[change]
  const ts_ms = wallMs()
  // A deleted record is described by its last observed state.
  const held = record ?? before?.record
  if (change === 'state' || !held) {
    // By the holder's clock the lease may have expired. Only an observer that has watched for the whole lease duration
    // knows for certain.
    const aboutMs = record && expiry === 'observed' ? Math.max(0, estimatedRemainingMs(record)) : remainingMs
    return [stateOf(election, { ...item, remainingMs: Math.min(remainingMs, aboutMs) }, 0)]
  }
  const common = { group_id: election, term: held.term, leader_node_id: held.holder, ts_ms }
  if (reason === undefined) {
    const type = change === 'renewed' ? ('RENEWED' as const) : ('LEADER_CHANGED' as const)
    return [{ type, ...common, leader: leaseOf(held, remainingMs) }]
  }
  return [{ type: 'LEADER_LOST', ...common, reason, leader: null, previous_leader: leaseOf(held, 0) }]
}

function stateOf(election: string, { record, change, remainingMs }: Observation, ageMs: number): PageEvent {
  const isOver = !record || record.released || change === 'expired' || change === 'deleted'
  return {
    type: 'STATE',
    group_id: election,
    ...(isOver ? { leader: null } : { leader: leaseOf(record, remainingMs - ageMs) }),
    ...(isOver && record && { previous_leader: leaseOf(record, 0) }),
    highest_term: record?.term ?? 0,
    ts_ms: wallMs(),
  }
}

/** Converts a record to a lease of the HTTP API. */
export function leaseOf(record: LeaseRecord, remainingMs: number): LeaseAnswer {
  return {
    node_id: record.holder,
    term: record.term,
    // Round down, and never report a negative time.
    lease_remaining_ms: Math.max(0, Math.floor(remainingMs)),
    lease_ttl_ms: record.leaseDurationMs,
    acquired_at_ms: record.acquiredAt,
    renewed_at_ms: record.renewedAt,
    metadata: record.metadata,
    checkpoint: record.checkpoint,
  }
}
