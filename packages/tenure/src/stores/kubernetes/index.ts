/**
 * Keeps elections in Kubernetes Leases, compatible with client-go.
 *
 * @module
 */
import { isObject } from '@tenure/internal/objects'
import { systemClock, type Clock } from '../../common/clock.ts'
import { ApiError, isApiError, reasonOf, type ApiAnswer } from '../../clients/kubernetes/api-error.ts'
import { clientOf, type AnyClient } from '../../clients/kubernetes/credentials/any-client.ts'
import type { KubernetesClient } from '../../clients/kubernetes/client.ts'
import { checkLeaseName, checkNamespace, leaseNameOf, leaseNameRule } from '../../kubernetes/codec/lease-name.ts'
import {
  asLease,
  decodeLease,
  encodeLease,
  noLease,
  type FoundLease,
  type LeaseKey,
} from '../../kubernetes/codec/lease.ts'
import { anyVersion, follow, versionOf, type Followed } from '../../clients/kubernetes/list-watch.ts'
import { adviseOnNamespace, defaultNamespace, namespaceExists } from '../../kubernetes/namespaces.ts'
import { defaultNamespaceHint, askRights, type LeaseRights } from '../../kubernetes/rights.ts'
import { inCluster } from '../../clients/kubernetes/credentials/service-account.ts'
import type { CallOptions, LeaseRecord, LeaseStore, ListPage } from '../../engine/lease-store.ts'
import { ownCheckpointLimitBytes, checkClock } from '../../engine/check-values.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { warnOnce } from '../../log/advice.ts'
import { listPage, type Page } from '../../store-kit/list.ts'
import { termInRecord, type RecordDraft } from '../../store-kit/rules.ts'
import { watchTimeoutMs } from '../../store-kit/watch-timeout.ts'
import { swapStore, type SwapOutcome, type SwapServer } from '../../store-kit/compare-and-swap-store.ts'
import { OpenWatches } from '../../store-kit/watches.ts'

export type { LeaseRights }

/** Options of {@link kubernetesStore}. None is needed in a pod. */
export interface KubernetesStoreOptions {
  /** Default: `inCluster()`. */
  readonly client?: AnyClient | undefined
  /** Namespace of the Leases. Default: the environment variable POD_NAMESPACE, or `default` if it is not set. */
  readonly namespace?: string | undefined
  readonly clock?: Clock | undefined
}

/** A store that keeps its elections in Leases of one namespace. */
export interface KubernetesStore extends LeaseStore {
  readonly namespace: string
  /** Throws if an election of this name would not be kept in the Lease of the same name. @internal */
  checkLeaseName(option: string, name: string): void
  /** Whether the namespace exists. Undefined if the caller may not ask. */
  namespaceExists(options: CallOptions): Promise<boolean | undefined>
  /** The caller's permissions on an election's Lease. Undefined if the API server does not say. */
  rights(election: string, options: CallOptions): Promise<LeaseRights | undefined>
}

const names: OptionNames<KubernetesStoreOptions> = { client: true, namespace: true, clock: true }
const forbiddenMs = 300_000
/** Limits for how many elections a process checks its permissions, in case it campaigns for many elections in turn. */
const maxRightsChecks = 10

/**
 * Keeps each election in a Lease, as client-go does, so that both can share an election. The candidates observe expiry.
 *
 * @example
 * const store = kubernetesStore()
 * await lead({ store, election: 'nightly-report', identity: process.env.POD_NAME }, work)
 */
export function kubernetesStore(options: KubernetesStoreOptions = {}): KubernetesStore {
  checkOptions('kubernetesStore()', options, names)
  checkClock(options.clock)
  const { clock = systemClock, namespace = process.env['POD_NAMESPACE'] || defaultNamespace } = options
  checkNamespace('namespace', namespace)
  const client = options.client === undefined ? inCluster() : clientOf(options.client)
  if (options.namespace === undefined) adviseOnNamespace(client, 'namespace')
  const isNamed = options.namespace !== undefined
  const server = new LeaseServer({ client, namespace, clock, isNamed })
  return {
    ...swapStore(server, clock),
    namespace,
    // An update must name the version that it replaces.
    readsFirst: true,
    checkLeaseName,
    namespaceExists: (call) => namespaceExists(client, namespace, call),
    rights: (election, call) => server.rights(election, call),
    examine: (election, call) => server.examine(election, call),
  }
}

class LeaseServer implements SwapServer<FoundLease> {
  readonly expiry = 'observed'
  readonly checkpointLimitBytes = ownCheckpointLimitBytes
  readonly keepsTerms = false
  readonly #namespace: string
  readonly #client: KubernetesClient
  readonly #clock: Clock
  /**
   * A hint for errors that asks whether the default namespace is the intended one. Cleared once a Lease has been read
   * there.
   */
  #question: string
  readonly #watches = new OpenWatches()
  /** When an election may be watched again. It is not watched now, because the permission is missing. */
  readonly #forbidden = new Map<string, number>()
  readonly #examined = new Set<string>()

  constructor(options: { client: KubernetesClient; namespace: string; clock: Clock; isNamed: boolean }) {
    this.#client = options.client
    this.#namespace = options.namespace
    this.#clock = options.clock
    this.#question = options.isNamed ? '' : defaultNamespaceHint(options.namespace)
  }

  find(election: string, call: CallOptions): Promise<FoundLease> {
    return this.#get(this.#keyOf(election), withLaterDeadline(call))
  }

  /** Overwrites one version, or creates the Lease if there is none. */
  async swap(
    election: string,
    over: FoundLease,
    draft: RecordDraft,
    call: CallOptions,
  ): Promise<SwapOutcome<FoundLease>> {
    const { lease } = over
    const key = this.#keyOf(election)
    const body = encodeLease(key, draft, over)
    const request = lease
      ? ({ method: 'PUT', path: pathOf(key), body } as const)
      : ({ method: 'POST', path: collectionOf(key.namespace), body } as const)
    const answer = await this.#client.request({ ...request, ...withLaterDeadline(call) })
    if (answer.status === 200 || answer.status === 201) return { ok: true, found: decodeLease(answer.body, election) }
    const reason = reasonOf(answer)
    const overtaken = reason === (lease ? 'Conflict' : 'AlreadyExists') || (lease && reason === 'NotFound')
    if (overtaken) return { ok: false }
    throw this.#failed(lease ? 'update' : 'create', key, answer)
  }

  /** Deletes the Lease, which also contains the term. */
  async remove(election: string, { lease }: FoundLease, withTerm: boolean, call: CallOptions): Promise<boolean> {
    if (!withTerm) throw termInRecord(election)
    const key = this.#keyOf(election)
    const { metadata } = lease ?? {}
    const preconditions = { uid: metadata?.['uid'], resourceVersion: metadata?.resourceVersion }
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions }
    const answer = await this.#client.request({ method: 'DELETE', path: pathOf(key), body, ...withLaterDeadline(call) })
    if (answer.status === 200 || answer.status === 202) return true
    if (['Conflict', 'NotFound'].includes(reasonOf(answer) ?? '')) return false
    throw this.#failed('delete', key, answer)
  }

  async *watch(election: string, { signal }: CallOptions): AsyncGenerator<FoundLease, void, undefined> {
    // Without the permission to watch, the engine polls. Trying a watch each time would double the requests.
    if (signal.aborted || this.#clock.monotonicMs() < (this.#forbidden.get(election) ?? -Infinity)) return
    this.#forbidden.delete(election)
    yield* this.#watches.run(signal, (ending) => this.#follow(this.#keyOf(election), ending))
  }

  rights(election: string, call: CallOptions): Promise<LeaseRights | undefined> {
    return askRights(this.#client, this.#keyOf(election), this.#question, call)
  }

  async examine(election: string, call: CallOptions): Promise<readonly Error[]> {
    if (this.#examined.has(election) || this.#examined.size >= maxRightsChecks) return []
    this.#examined.add(election)
    const { missing, enough } = (await this.rights(election, call)) ?? {}
    if (!missing) return []
    // If only "watch" is missing, it is reported once: here or by the refused watch, whichever comes first.
    if (enough && this.#forbidden.has(election)) return []
    if (enough) this.#forbid(election)
    return [missing]
  }

  /** Every Lease in the namespace counts as an election, regardless of which program created it. */
  async list({ after, limit }: Page, call: CallOptions): Promise<ListPage> {
    const query = new URLSearchParams({ limit: String(limit), ...(after !== undefined && { continue: after }) })
    const path = `${collectionOf(this.#namespace)}?${query.toString()}`
    const answer = await this.#client.request({ method: 'GET', path, ...withLaterDeadline(call) })
    if (answer.status !== 200) {
      const advice = answer.status === 403 ? 'Add "list" to the Role.' : undefined
      throw new ApiError(`Cannot list Leases in namespace "${this.#namespace}"`, answer, advice)
    }
    const { items, metadata } = isObject(answer.body) ? answer.body : {}
    if (!Array.isArray(items)) throw new ApiError('The API server did not answer with a list', answer)
    const next = isObject(metadata) && typeof metadata['continue'] === 'string' ? metadata['continue'] : ''
    // The items of a list have no "kind".
    const recordOf = (item: unknown) => decodeLease({ ...(isObject(item) ? item : {}), kind: 'Lease' }).record
    return listPage(items, next || undefined, recordOf)
  }

  async close(): Promise<void> {
    this.#watches.close()
    this.#client.close()
  }

  async #get(key: LeaseKey, call: CallOptions): Promise<FoundLease> {
    const answer = await this.#client.request({ method: 'GET', path: pathOf(key), ...call })
    if (answer.status === 404 && reasonOf(answer) === 'NotFound') return noLease
    if (answer.status !== 200) throw this.#failed('get', key, answer)
    this.#question = ''
    return decodeLease(answer.body, key.election)
  }

  /** Yields the current state, then each change. */
  async *#follow(key: LeaseKey, signal: AbortSignal): AsyncGenerator<FoundLease, void, undefined> {
    let shown: LeaseRecord | undefined
    let hasLooked = false
    const look = async (again: boolean) => {
      hasLooked = false
      const state = await this.#get(key, { signal })
      hasLooked = true
      return { state, from: (again ? undefined : state.record?.version) ?? anyVersion }
    }
    const { name, namespace } = key
    const path = collectionOf(namespace)
    const silenceMs = () => watchTimeoutMs(shown)
    try {
      const watched = { client: this.#client, clock: this.#clock, path, name, signal, look, silenceMs }
      for await (const event of follow<FoundLease>(watched)) {
        if (event.type !== 'all' && versionIn(event) === shown?.version) continue
        const found = event.type === 'all' ? event.state : foundIn(key, event)
        shown = found.record
        yield found
      }
    } catch (error) {
      if (hasLooked && isApiError(error) && error.status === 403) {
        // The rights check has already reported the missing permission.
        if (this.#forbidden.has(key.election)) return
        this.#forbid(key.election)
      }
      throw error
    }
  }

  #forbid(election: string): void {
    this.#forbidden.set(election, this.#clock.monotonicMs() + forbiddenMs)
  }

  #failed(verb: string, { namespace, name }: LeaseKey, answer: ApiAnswer): ApiError {
    const advice = `Bind the Role from deploy/kubernetes to this user in namespace "${namespace}".${this.#question}`
    return new ApiError(`Cannot ${verb} Lease "${namespace}/${name}"`, answer, advice)
  }

  #keyOf(election: string): LeaseKey {
    const namespace = this.#namespace
    const name = leaseNameOf(election)
    if (name !== election) {
      const advice = 'Other programs that take part in this election must use this Lease.'
      const text = `The election ${JSON.stringify(election)} is stored in the Lease "${namespace}/${name}": ${leaseNameRule}. ${advice}`
      warnOnce('INVALID_OPTION', text)
    }
    return { namespace, name, election }
  }
}

type LeaseEvent = Exclude<Followed<unknown>, { type: 'all' }>

/** The version after an event. Undefined after a deletion. */
function versionIn({ type, object }: LeaseEvent): string | undefined {
  return type === 'deleted' ? undefined : versionOf(object)
}

function foundIn(key: LeaseKey, { type, object }: LeaseEvent): FoundLease {
  if (type === 'put') return decodeLease(object, key.election)
  asLease(object)
  return noLease
}

const longestGraceMs = 1_000

/**
 * Sets the client's own deadline a tenth later than the caller's bound, so that the two do not race. The caller's
 * signal ends a call at its bound, with the caller's reason. The client's deadline is only for callers whose signal
 * never aborts.
 */
function withLaterDeadline({ signal, timeoutMs }: CallOptions): CallOptions {
  if (timeoutMs === undefined) return { signal }
  return { signal, timeoutMs: timeoutMs + Math.min(longestGraceMs, timeoutMs / 10) }
}

function collectionOf(namespace: string): string {
  return `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
}

function pathOf(key: LeaseKey): string {
  return `${collectionOf(key.namespace)}/${key.name}`
}
