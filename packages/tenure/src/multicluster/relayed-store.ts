/**
 * The store whose calls a controller performs. Each call is written into a resource of this cluster. It returns when
 * the resource's status has the answer to exactly this call. Ids are never reused, so nothing that a watch or a read
 * showed before the call can be mistaken for its answer.
 *
 * The engine counts from before the request was written, which is before the controller saw it, which is before the
 * global store wrote it. So others wait at least as long as the holder believes.
 */
import type { Clock } from '../common/clock.ts'
import { invalidOption, TenureError } from '../common/errors.ts'
import { isApiError, type ApiError } from '../clients/kubernetes/api-error.ts'
import { leaseNameOf } from '../kubernetes/codec/lease-name.ts'
import type { AcquireClaim, CallOptions, HeldClaim, LeaseRecord, LeaseStore, Outcome } from '../engine/lease-store.ts'
import { plainStore } from '../store-kit/bound-store.ts'
import { OpenWatches } from '../store-kit/watches.ts'
import { foundIn, outcomeOf } from './protocol/answer-codec.ts'
import { isGlobalHolder } from './protocol/holder-names.ts'
import { RelayedCall } from './relayed-call.ts'
import { Slots } from './slots.ts'
import { RecordWatch } from './record-watch.ts'
import {
  heldRequest,
  acquireRequest,
  patchWith,
  requestOf,
  specWith,
  type RequestBody,
} from './protocol/request-codec.ts'
import type { MultiClusterAnswer, MultiClusterLease, MultiClusterRequest } from './protocol/resource-types.ts'
import type { ResourceKey, Resources } from './resources.ts'
import { ResourceObserver } from './resource-observer.ts'

/** A leader sends another call within its lease duration. Its watch stays open between calls for at most this long. */
const longestKeptMs = 60_000
/** A read or a refused claim is often followed by another call. */
const shortlyKeptMs = 1_000
const mostRemembered = 1_000
/** The maximum number of requests that the API server accepts in one resource. */
const mostKeys = 64
/** How many times one call tries to write into a resource that is repeatedly created and deleted. */
const mostTries = 3

/** The state of a store for one election. */
interface ElectionEntry {
  readonly election: string
  readonly key: ResourceKey
  readonly view: ResourceObserver
  readonly lanes: Slots
  /** The last candidate that used this store, and its lease duration. Reads include both. */
  holder: string | undefined
  leaseDurationMs: number | undefined
}

/** A store, and the latest observed state of the resources that it uses. */
export interface RelayedStore extends LeaseStore {
  readonly namespace: string
  resources(): readonly MultiClusterLease[]
}

/** Creates a store whose calls are performed by the controllers that watch these resources. */
export function relayedStore(resources: Resources, namespace: string, clock: Clock): RelayedStore {
  return plainStore(new RelayedLeases(resources, namespace, clock))
}

/** Implements the port directly. The global store decides claims, and the controller returns the outcome. */
class RelayedLeases implements RelayedStore {
  readonly expiry = 'observed'
  readonly terms = true
  readonly namespace: string
  readonly #resources: Resources
  readonly #clock: Clock
  /** A random id, so that no two stores share a slot, not even those of a process and its clone. */
  readonly #id: string
  readonly #places = new Map<string, ElectionEntry>()
  readonly #watches = new OpenWatches()

  constructor(resources: Resources, namespace: string, clock: Clock) {
    this.#resources = resources
    this.namespace = namespace
    this.#clock = clock
    this.#id = clock.randomId()
  }

  read(election: string, options: CallOptions): Promise<LeaseRecord | undefined> {
    const { holder = `reader-${this.#id}`, leaseDurationMs } = this.#entryOf(election)
    const asked: RequestBody = { verb: 'read', claim: { holder, leaseDurationMs } }
    return this.#ask(election, asked, options, (answer) => foundIn(election, answer))
  }

  acquire(claim: AcquireClaim, options: CallOptions): Promise<Outcome> {
    return this.#claim(claim.election, acquireRequest(claim), options)
  }

  renew(claim: HeldClaim, options: CallOptions): Promise<Outcome> {
    return this.#claim(claim.election, heldRequest('renew', claim), options)
  }

  release(claim: HeldClaim, options: CallOptions): Promise<Outcome> {
    return this.#claim(claim.election, heldRequest('release', claim), options)
  }

  async #claim(election: string, asked: RequestBody, options: CallOptions): Promise<Outcome> {
    const { holder, leaseDurationMs } = asked.claim
    // Other clusters know this candidate as "cluster/identity", so an identity must not contain a slash.
    if (isGlobalHolder(holder))
      throw invalidOption('identity', holder, 'it must not contain "/" in a multi-cluster election')
    Object.assign(this.#entryOf(election), { holder, leaseDurationMs })
    return this.#ask(election, asked, options, (answer) => outcomeOf(election, asked, answer))
  }

  watch(election: string, { signal }: CallOptions): AsyncGenerator<LeaseRecord | undefined, void, undefined> {
    return this.#watches.run(signal, (ending) => this.#follow(election, ending))
  }

  resources(): readonly MultiClusterLease[] {
    return [...this.#places.values()].flatMap(({ view: { newest } }) => newest ?? [])
  }

  async close(): Promise<void> {
    this.#watches.close()
    for (const { view } of this.#places.values()) view.close()
  }

  async *#follow(election: string, signal: AbortSignal): AsyncGenerator<LeaseRecord | undefined, void, undefined> {
    const { view } = this.#entryOf(election)
    const watch = new RecordWatch(election, view, this.#clock, signal)
    try {
      yield* watch.records(() => this.read(election, { signal }))
    } finally {
      watch.end()
    }
  }

  /** Writes a request, waits for the answer, and returns the result of `understand`. */
  async #ask<T>(
    election: string,
    asked: RequestBody,
    options: CallOptions,
    understand: (answer: MultiClusterAnswer) => T,
  ): Promise<T> {
    const entry = this.#entryOf(election)
    const call = new RelayedCall(entry.key, entry.view, this.#clock, options)
    let lane: number | undefined
    let keepMs = shortlyKeptMs
    try {
      lane = await entry.lanes.take(call.signal)
      call.throwIfEnded()
      // The id is created for this call, so an answer with this id was given after this moment.
      const id = this.#clock.randomId()
      const key = `${this.#id}-${lane}`
      const answer = call.expect(key, id, understand)
      // A request that is written again keeps its id, so either copy, once carried out, answers this call.
      const write = async (): Promise<void> => {
        const written = await call.race(this.#write(entry, key, requestOf(asked, { id, ...call.now() }), call))
        call.wrote(written, () => void write().catch(() => {}))
      }
      await write()
      const result = await call.race(answer)
      keepMs = watchKeepMs(asked, result)
      return result
    } finally {
      if (lane !== undefined) entry.lanes.free(lane)
      call.end(keepMs)
    }
  }

  /** Patches the resource, or creates it if it does not exist. */
  async #write(
    entry: ElectionEntry,
    key: string,
    request: MultiClusterRequest,
    call: RelayedCall,
  ): Promise<MultiClusterLease> {
    const { election, key: at, view } = entry
    const name = at.name === election ? undefined : election
    for (let tries = 1; ; tries++) {
      try {
        const patch = patchWith(key, request, abandonedKeysIn(view.newest, key))
        const patched = await this.#resources.patchSpec(at, patch, call.left())
        const written = patched ?? (await this.#resources.create(at, specWith(key, request), name, call.left()))
        if (written) return written
        if (tries >= mostTries) throw unsettled(at)
      } catch (error) {
        if (!isApiError(error) || tries >= mostTries) throw error
        // Either many candidates write at once, or the slots are full of requests from dead candidates that this store
        // has not seen in the resource yet.
        if (error.status === 422) await this.#makeRoom(entry, key, call, error)
        else if (error.status !== 409) throw error
      }
    }
  }

  /** Looks for abandoned slots that the next try can free. */
  async #makeRoom({ key: at, view }: ElectionEntry, key: string, call: RelayedCall, refusal: ApiError): Promise<void> {
    const known = abandonedKeysIn(view.newest, key)
    await view.look(call.left())
    const { requests = {} } = view.newest?.spec ?? {}
    if (abandonedKeysIn(view.newest, key).some((name) => !known.includes(name))) return
    if (Object.hasOwn(requests, key) || Object.keys(requests).length < mostKeys) throw refusal
    const text = `The MultiClusterLease "${at.namespace}/${at.name}" already has ${mostKeys} candidates of this cluster, which is the maximum. The slot of a candidate that is gone becomes free after four of its lease durations.`
    throw new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true, cause: refusal })
  }

  #entryOf(election: string): ElectionEntry {
    const known = this.#places.get(election)
    if (known) return known
    this.#forget()
    const key = { namespace: this.namespace, name: leaseNameOf(election) }
    const view = new ResourceObserver(this.#resources, key, this.#clock)
    const entry = { election, key, view, lanes: new Slots(), holder: undefined, leaseDurationMs: undefined }
    this.#places.set(election, entry)
    return entry
  }

  /** Forgets unused elections, so that a process that asks about one election after another keeps only a few. */
  #forget(): void {
    for (const { election, view, lanes } of this.#places.values()) {
      if (this.#places.size < mostRemembered) return
      if (!view.isNeeded && lanes.isEmpty) this.#places.delete(election)
    }
  }
}

function unsettled({ namespace, name }: ResourceKey): TenureError {
  const what = `The MultiClusterLease "${namespace}/${name}" is repeatedly created and deleted.`
  return new TenureError('BACKEND_UNAVAILABLE', `${what} Find out who deletes it.`, { retryable: true })
}

/** How long to keep the watch. A leader calls again within its lease duration, and after a release no call follows. */
function watchKeepMs({ verb, claim }: RequestBody, result: unknown): number {
  if (verb === 'release') return 0
  const isGrant = verb !== 'read' && (result as Outcome).ok
  return isGrant ? Math.min(longestKeptMs, claim.leaseDurationMs ?? 0) : shortlyKeptMs
}

/** Keys that the controller has found to be abandoned. */
function abandonedKeysIn(newest: MultiClusterLease | undefined, ownKey: string): string[] {
  const { requests = {} } = newest?.spec ?? {}
  return (newest?.status.silent ?? []).filter((key) => key !== ownKey && Object.hasOwn(requests, key))
}
