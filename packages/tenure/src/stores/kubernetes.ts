import { systemClock, type Clock } from '../clock.ts'
import { invalidOption, isTenureError } from '../errors.ts'
import { isObject } from '../http/body.ts'
import { ApiError, reasonOf, type ApiAnswer } from '../kubernetes/api-error.ts'
import { clientOf, type AnyClient } from '../kubernetes/any-client.ts'
import type { KubernetesClient } from '../kubernetes/client.ts'
import { checkNamespace, leaseNameOf } from '../kubernetes/lease-name.ts'
import { asLease, currentOf, leaseOf, type LeaseKey, type LeaseObject } from '../kubernetes/lease.ts'
import { inCluster } from '../kubernetes/service-account.ts'
import type { CallOptions, LeaseRecord, LeaseStore, Outcome } from '../lease-store.ts'
import { checkClock, checkObject } from '../options.ts'
import { granted, judgeAcquire, judgeRelease, judgeRenew, type Current, type Draft, type Verdict } from './rules.ts'

/** What {@link kubernetesStore} takes. In a pod nothing is needed. */
export interface KubernetesStoreOptions {
  /** Default: `inCluster()`. */
  readonly client?: AnyClient | undefined
  /** Where the Leases are kept. Default: the variable POD_NAMESPACE, else `default`. */
  readonly namespace?: string | undefined
  readonly clock?: Clock | undefined
}

/** A store of Leases, all in one namespace. */
export interface KubernetesStore extends LeaseStore {
  readonly namespace: string
}

// A namespace that is misspelt would be another one.
const known = ['client', 'namespace', 'clock']
const remembered = 10_000
/** A watch that lasted this long may be resumed at once; one that ends sooner is left to the engine to pace. */
const settledMs = 5_000
const quietMs = 90_000
/** Begins a watch with whatever the server has at hand. */
const anyVersion = '0'
const forbiddenMs = 300_000

/**
 * Keeps each election in a Lease, as client-go does: the two can share one. Expiry is observed by the candidates.
 *
 * @example
 * const store = kubernetesStore()
 * await lead({ store, election: 'nightly-report', identity: process.env.POD_NAME }, work)
 */
export function kubernetesStore(options: KubernetesStoreOptions = {}): KubernetesStore {
  checkObject('options', options)
  checkClock(options.clock)
  for (const name of Object.keys(options)) {
    if (!known.includes(name))
      throw invalidOption(name, Reflect.get(options, name), `only ${known.join(', ')} are known`)
  }
  const { clock = systemClock, namespace = process.env['POD_NAMESPACE'] || 'default' } = options
  checkNamespace('namespace', namespace)
  const client = options.client === undefined ? inCluster() : clientOf(options.client)
  return new LeaseLocks(client, namespace, clock)
}

class LeaseLocks implements KubernetesStore {
  readonly expiry = 'observed'
  readonly terms = true
  readonly namespace: string
  readonly #client: KubernetesClient
  readonly #clock: Clock
  /**
   * The Lease as last seen, by election. Good enough to try a write on, which the server does only if that version is
   * still the newest; never to answer from.
   */
  readonly #known = new Map<string, LeaseObject>()
  readonly #watches = new Set<AbortController>()
  /** Until when it is not asked again whether an election may be watched. */
  readonly #forbidden = new Map<string, number>()

  constructor(client: KubernetesClient, namespace: string, clock: Clock) {
    this.#client = client
    this.namespace = namespace
    this.#clock = clock
  }

  async read(election: string, call: CallOptions): Promise<LeaseRecord | undefined> {
    return currentOf(election, await this.#get(this.#keyOf(election), call)).record
  }

  acquire: LeaseStore['acquire'] = (claim, call) =>
    this.#apply(claim, call, (current) => judgeAcquire(current, claim, this.#clock.wallMs()))

  renew: LeaseStore['renew'] = (claim, call) =>
    this.#apply(claim, call, (current) => judgeRenew(current, claim, this.#clock.wallMs()))

  release: LeaseStore['release'] = (claim, call) => this.#apply(claim, call, (current) => judgeRelease(current, claim))

  async *watch(election: string, { signal }: CallOptions): AsyncGenerator<LeaseRecord | undefined, void, undefined> {
    // Without the right to watch, the engine polls. Asking for it again each time would double the requests.
    if (signal.aborted || this.#clock.monotonicMs() < (this.#forbidden.get(election) ?? -Infinity)) return
    this.#forbidden.delete(election)
    const closing = new AbortController()
    const end = () => closing.abort(signal.reason)
    signal.addEventListener('abort', end, { once: true })
    this.#watches.add(closing)
    try {
      yield* this.#follow(this.#keyOf(election), closing.signal)
    } catch (error) {
      if (closing.signal.aborted) return
      throw error
    } finally {
      signal.removeEventListener('abort', end)
      this.#watches.delete(closing)
    }
  }

  async close(): Promise<void> {
    for (const watch of this.#watches) watch.abort()
    this.#client.close()
  }

  async #apply(
    claim: { readonly election: string; readonly leaseDurationMs: number },
    call: CallOptions,
    judge: (current: Current) => Verdict,
  ): Promise<Outcome> {
    const key = this.#keyOf(claim.election)
    const attempt = async (lease: LeaseObject | undefined, draft: Draft): Promise<Outcome | undefined> => {
      const { record } = currentOf(key.election, await this.#write(key, lease, draft, call))
      return record && granted(record, claim)
    }
    const known = this.#known.get(key.election)
    const guess = known && judge(currentOf(key.election, known))
    if (guess && 'write' in guess) {
      const done = await attempt(known, guess.write)
      if (done) return done
    }
    const lease = await this.#get(key, call)
    const verdict = judge(currentOf(key.election, lease))
    if ('answer' in verdict) return verdict.answer
    const done = await attempt(lease, verdict.write)
    if (done) return done
    // Somebody wrote in between, and that is judged instead: it may be this very attempt, by an earlier call.
    const winner = currentOf(key.election, await this.#get(key, call))
    const second = judge(winner)
    if ('answer' in second) return second.answer
    return { ok: false, ...(winner.record && { record: winner.record }), highestTerm: winner.highestTerm }
  }

  async #get(key: LeaseKey, call: CallOptions): Promise<LeaseObject | undefined> {
    const answer = await this.#client.request({ method: 'GET', path: pathOf(key), ...call })
    if (answer.status === 404 && reasonOf(answer) === 'NotFound') return this.#remember(key, undefined)
    if (answer.status !== 200) throw failed('get', key, answer)
    return this.#remember(key, asLease(answer.body))
  }

  /** Writes over one version, or over nothing at all; undefined if the Lease is another by now. */
  async #write(
    key: LeaseKey,
    before: LeaseObject | undefined,
    draft: Draft,
    call: CallOptions,
  ): Promise<LeaseObject | undefined> {
    const body = leaseOf(key, draft, before)
    const answer = await this.#client.request(
      before
        ? { method: 'PUT', path: pathOf(key), body, ...call }
        : { method: 'POST', path: collectionOf(key), body, ...call },
    )
    if (answer.status === 200 || answer.status === 201) return this.#remember(key, asLease(answer.body))
    const reason = reasonOf(answer)
    const overtaken = reason === (before ? 'Conflict' : 'AlreadyExists') || (before && reason === 'NotFound')
    if (overtaken) return this.#remember(key, undefined)
    throw failed(before ? 'update' : 'create', key, answer)
  }

  /** The state as it is, then each change; resumed where it broke off. */
  async *#follow(key: LeaseKey, signal: AbortSignal): AsyncGenerator<LeaseRecord | undefined, void, undefined> {
    let shown: LeaseRecord | undefined
    let from: string | undefined
    let anewMs = -Infinity
    for (;;) {
      if (from === undefined) {
        shown = currentOf(key.election, await this.#get(key, { signal })).record
        yield shown
        from = anewMs === -Infinity && shown ? shown.version : anyVersion
      }
      const openedMs = this.#clock.monotonicMs()
      try {
        const path = this.#watchPath(key, from)
        for await (const event of this.#client.watch({ path, signal, silenceMs: () => silenceOf(shown) })) {
          const { type, lease } = readEvent(event)
          from = lease.metadata.resourceVersion
          if (type === 'BOOKMARK') continue
          const { record } = currentOf(key.election, this.#remember(key, type === 'DELETED' ? undefined : lease))
          if (record?.version === shown?.version) continue
          shown = record
          yield record
        }
        if (this.#clock.monotonicMs() - openedMs < settledMs) return
      } catch (error) {
        const nowMs = this.#clock.monotonicMs()
        if (error instanceof ApiError && error.status === 403) this.#forbidden.set(key.election, nowMs + forbiddenMs)
        // The history up to there is gone: what is there now takes its place. Once; then the engine paces it.
        const gone = error instanceof ApiError && error.status === 410 && nowMs - anewMs >= settledMs
        const cut = isTenureError(error) && error.retryable && nowMs - openedMs >= settledMs
        if (!gone && !cut) throw error
        // Silence can mean that the server's versions are not ours any more, as after a restored backup.
        if (!gone && isTenureError(error) && error.code !== 'TIMEOUT') continue
        from = undefined
        anewMs = nowMs
      }
    }
  }

  #watchPath(key: LeaseKey, from: string): string {
    const query = new URLSearchParams({
      watch: '1',
      fieldSelector: `metadata.name=${key.name}`,
      // Spread, so that a fleet's watches do not all end at once.
      timeoutSeconds: String(Math.round(300 * (1 + this.#clock.random()))),
      resourceVersion: from,
      // With bookmarks, a watch from any version asks for more than the API server can do on an etcd before 3.4.25.
      ...(from !== anyVersion && { allowWatchBookmarks: 'true' }),
    })
    return `${collectionOf(key)}?${query.toString()}`
  }

  #remember(key: LeaseKey, lease: LeaseObject | undefined): LeaseObject | undefined {
    this.#known.delete(key.election)
    if (!lease) return undefined
    // What is not understood is not kept: the next call is to see whether it has been mended.
    currentOf(key.election, lease)
    this.#known.set(key.election, lease)
    const [oldest] = this.#known.keys()
    if (this.#known.size > remembered && oldest !== undefined) this.#known.delete(oldest)
    return lease
  }

  #keyOf(election: string): LeaseKey {
    return { namespace: this.namespace, name: leaseNameOf(election), election }
  }
}

function collectionOf({ namespace }: LeaseKey): string {
  return `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
}

function pathOf(key: LeaseKey): string {
  return `${collectionOf(key)}/${key.name}`
}

/** Whoever holds a lease renews it well within its duration: a watch that shows nothing for longer is not to be trusted. */
function silenceOf(record: LeaseRecord | undefined): number {
  const held = record && !record.released && record.leaseDurationMs > 0
  return held ? Math.min(quietMs, record.leaseDurationMs * 1.5) : quietMs
}

function readEvent(event: unknown): { type: string; lease: LeaseObject } {
  const { type, object } = isObject(event) ? event : {}
  if (type === 'ERROR') {
    const status = isObject(object) && typeof object['code'] === 'number' ? object['code'] : 500
    throw new ApiError('A watch ended', { status, body: object })
  }
  return { type: String(type), lease: asLease(object) }
}

function failed(verb: string, { namespace, name }: LeaseKey, answer: ApiAnswer): ApiError {
  return new ApiError(`Cannot ${verb} Lease "${namespace}/${name}"`, answer)
}
