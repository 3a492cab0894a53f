/**
 * The lock: a store whose calls a controller carries out. Each call is written into a resource of this cluster, and
 * returns when the resource's status has the answer to it, and to no other call: ids are never used twice. So nothing
 * that was seen before the call, by whatever watch or read, can be taken for its answer.
 *
 * The engine counts from before the request was written, which is before the controller saw it, which is before the
 * global store wrote it: others wait at least as long as the holder believes.
 */
import type { Clock } from '../clock.ts'
import { invalidOption, TenureError } from '../errors.ts'
import { ApiError } from '../kubernetes/client/api-error.ts'
import { leaseNameOf } from '../kubernetes/codec/lease-name.ts'
import type { AcquireClaim, CallOptions, HeldClaim, LeaseRecord, LeaseStore, Outcome } from '../lease-store.ts'
import { plainStore } from '../stores/plain.ts'
import { Watches } from '../stores/watches.ts'
import { foundIn, outcomeOf } from './answers.ts'
import { RelayedCall } from './relayed-call.ts'
import { Lanes } from './lanes.ts'
import { RecordWatch } from './record-watch.ts'
import { askHeld, askToAcquire, patchWith, requestOf, specWith, type Asked } from './requests.ts'
import type { MultiClusterAnswer, MultiClusterLease, MultiClusterRequest } from './resource.ts'
import type { ResourceKey, Resources } from './resources.ts'
import { ResourceView } from './resource-view.ts'

/** A leader asks again within its lease: for this long, at most, its watch is kept open between two calls. */
const longestKeptMs = 60_000
/** After a read, or a refusal, there is often another call. */
const shortlyKeptMs = 1_000
const mostRemembered = 1_000
/** The API server takes no more. */
const mostKeys = 64
/** How often a resource may come and go while one call tries to write into it. */
const mostTries = 3

/** What a store keeps of one election. */
interface Place {
  readonly election: string
  readonly key: ResourceKey
  readonly view: ResourceView
  readonly lanes: Lanes
  /** Who claimed it through this store, and for how long: a read names them too. */
  holder: string | undefined
  leaseDurationMs: number | undefined
}

/** A store, and what it has seen of the resources that it uses. */
export interface RelayedStore extends LeaseStore {
  readonly namespace: string
  resources(): readonly MultiClusterLease[]
}

/** A store whose calls are carried out by the controllers that watch these resources. */
export function relayedStore(resources: Resources, namespace: string, clock: Clock): RelayedStore {
  return plainStore(new RelayedLeases(resources, namespace, clock))
}

/** Not on a seam: the controller has claims judged by the global store, and gives what came of it. */
class RelayedLeases implements RelayedStore {
  readonly expiry = 'observed'
  readonly terms = true
  readonly namespace: string
  readonly #resources: Resources
  readonly #clock: Clock
  /** Random, so that no two stores share a place, not even of one process and its clone. */
  readonly #id: string
  readonly #places = new Map<string, Place>()
  readonly #watches = new Watches()

  constructor(resources: Resources, namespace: string, clock: Clock) {
    this.#resources = resources
    this.namespace = namespace
    this.#clock = clock
    this.#id = clock.randomId()
  }

  read(election: string, options: CallOptions): Promise<LeaseRecord | undefined> {
    const { holder = `reader-${this.#id}`, leaseDurationMs } = this.#placeOf(election)
    const asked: Asked = { verb: 'read', claim: { holder, leaseDurationMs } }
    return this.#ask(election, asked, options, (answer) => foundIn(election, answer))
  }

  acquire(claim: AcquireClaim, options: CallOptions): Promise<Outcome> {
    return this.#claim(claim.election, askToAcquire(claim), options)
  }

  renew(claim: HeldClaim, options: CallOptions): Promise<Outcome> {
    return this.#claim(claim.election, askHeld('renew', claim), options)
  }

  release(claim: HeldClaim, options: CallOptions): Promise<Outcome> {
    return this.#claim(claim.election, askHeld('release', claim), options)
  }

  async #claim(election: string, asked: Asked, options: CallOptions): Promise<Outcome> {
    const { holder, leaseDurationMs } = asked.claim
    // Other clusters know it as "cluster/identity": nobody here may have such a name.
    if (holder.includes('/')) throw invalidOption('identity', holder, 'no "/" may be in it across clusters')
    Object.assign(this.#placeOf(election), { holder, leaseDurationMs })
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
    const { view } = this.#placeOf(election)
    const watch = new RecordWatch(election, view, this.#clock, signal)
    try {
      yield* watch.records(() => this.read(election, { signal }))
    } finally {
      watch.end()
    }
  }

  /** Writes what is asked, waits for the answer, and gives what `understand` makes of it. */
  async #ask<T>(
    election: string,
    asked: Asked,
    options: CallOptions,
    understand: (answer: MultiClusterAnswer) => T,
  ): Promise<T> {
    const place = this.#placeOf(election)
    const call = new RelayedCall(place.key, place.view, this.#clock, options)
    let lane: number | undefined
    let keepMs = shortlyKeptMs
    try {
      lane = await place.lanes.take(call.signal)
      call.throwIfEnded()
      // Drawn for this call: an answer that has it was given after this moment.
      const id = this.#clock.randomId()
      const key = `${this.#id}-${lane}`
      const answer = call.expect(key, id, understand)
      call.wrote(await call.race(this.#write(place, key, requestOf(asked, { id, ...call.now() }), call)))
      const result = await call.race(answer)
      keepMs = keptFor(asked, result)
      return result
    } finally {
      if (lane !== undefined) place.lanes.free(lane)
      call.end(keepMs)
    }
  }

  /** Each try finds the resource there, or creates it. */
  async #write(place: Place, key: string, request: MultiClusterRequest, call: RelayedCall): Promise<MultiClusterLease> {
    const { election, key: at, view } = place
    const name = at.name === election ? undefined : election
    for (let tries = 1; ; tries++) {
      try {
        const patch = patchWith(key, request, silentIn(view.newest, key))
        const patched = await this.#resources.patchSpec(at, patch, call.left())
        const written = patched ?? (await this.#resources.create(at, specWith(key, request), name, call.left()))
        if (written) return written
        if (tries >= mostTries) throw unsettled(at)
      } catch (error) {
        if (!(error instanceof ApiError) || tries >= mostTries) throw error
        // Many write at once; or what others left behind is in the way, and is not known yet.
        if (error.status === 422) await this.#makeRoom(place, key, call, error)
        else if (error.status !== 409) throw error
      }
    }
  }

  /** Looks for places that the next try can free. */
  async #makeRoom({ key: at, view }: Place, key: string, call: RelayedCall, refusal: ApiError): Promise<void> {
    const known = silentIn(view.newest, key)
    await view.look(call.left())
    const { requests = {} } = view.newest?.spec ?? {}
    if (silentIn(view.newest, key).some((name) => !known.includes(name))) return
    if (Object.hasOwn(requests, key) || Object.keys(requests).length < mostKeys) throw refusal
    const text = `The MultiClusterLease "${at.namespace}/${at.name}" has ${mostKeys} candidates of this cluster, and takes no more. Places of candidates that are gone become free after four of their leases.`
    throw new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true, cause: refusal })
  }

  #placeOf(election: string): Place {
    const known = this.#places.get(election)
    if (known) return known
    this.#forget()
    const key = { namespace: this.namespace, name: leaseNameOf(election) }
    const view = new ResourceView(this.#resources, key, this.#clock)
    const place = { election, key, view, lanes: new Lanes(), holder: undefined, leaseDurationMs: undefined }
    this.#places.set(election, place)
    return place
  }

  /** A process that asks about one election after another keeps few of them. */
  #forget(): void {
    for (const { election, view, lanes } of this.#places.values()) {
      if (this.#places.size < mostRemembered) return
      if (!view.isNeeded && lanes.isEmpty) this.#places.delete(election)
    }
  }
}

function unsettled({ namespace, name }: ResourceKey): TenureError {
  const what = `The MultiClusterLease "${namespace}/${name}" is created and deleted all the time.`
  return new TenureError('BACKEND_UNAVAILABLE', `${what} Find out who deletes it.`, { retryable: true })
}

/** Nobody asks again after a release; a leader does so within its lease. */
function keptFor({ verb, claim }: Asked, result: unknown): number {
  if (verb === 'release') return 0
  const isGrant = verb !== 'read' && (result as Outcome).ok
  return isGrant ? Math.min(longestKeptMs, claim.leaseDurationMs ?? 0) : shortlyKeptMs
}

/** Keys that the controller has found to be abandoned. */
function silentIn(newest: MultiClusterLease | undefined, ownKey: string): string[] {
  const { requests = {} } = newest?.spec ?? {}
  return (newest?.status.silent ?? []).filter((key) => key !== ownKey && Object.hasOwn(requests, key))
}
