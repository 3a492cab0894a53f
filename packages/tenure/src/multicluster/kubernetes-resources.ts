import type { Clock } from '../common/clock.ts'
import { TenureError } from '../common/errors.ts'
import { ApiError, reasonOf, type ApiAnswer } from '../clients/kubernetes/api-error.ts'
import type { ApiCall, KubernetesClient } from '../clients/kubernetes/client.ts'
import { anyVersion, follow, listAll, type SeenVersion } from '../clients/kubernetes/list-watch.ts'
import type { CallOptions } from '../engine/lease-store.ts'
import { electionAnnotation, readResource, versionIn } from './protocol/resource-codec.ts'
import {
  resourceType,
  type MultiClusterLease,
  type MultiClusterLeaseSpec,
  type SpecPatch,
  type StatusPatch,
} from './protocol/resource-types.ts'
import type { ResourceChange, ResourceKey, Resources, ResourceScope, ResourceWatchOptions } from './resources.ts'

const { group, version, plural, kind } = resourceType
const apiVersion = `${group}/${version}`
/** Makes the API server reject an unknown field, which it would otherwise drop silently. */
const strict = '?fieldValidation=Strict'
/**
 * Makes the API server drop its record of who wrote which field, and no longer keep one for this object. Nobody needs it
 * here: candidates and controllers write different parts. It takes up almost half of each object and of each event, and
 * its upkeep is most of what a write costs the API server.
 */
const untracked = { managedFields: [{}] }
/** The API server sends a bookmark about once a minute on an idle watch. */
const quietMs = 90_000
/** The shortest watch timeout. */
const leastSilenceMs = 5_000

/**
 * The MultiClusterLeases in an API server.
 *
 * @example
 * const resources = kubernetesResources(inCluster(), systemClock)
 * const resource = await resources.get({ namespace: 'jobs', name: 'nightly' }, { signal })
 */
export function kubernetesResources(client: KubernetesClient, clock: Clock): Resources {
  return new KubernetesResources(client, clock)
}

class KubernetesResources implements Resources {
  readonly #client: KubernetesClient
  readonly #clock: Clock

  constructor(client: KubernetesClient, clock: Clock) {
    this.#client = client
    this.#clock = clock
  }

  async get(key: ResourceKey, call: CallOptions): Promise<MultiClusterLease | undefined> {
    return this.#ask('get', key, { method: 'GET', path: pathOf(key), ...call }, ['NotFound'])
  }

  async create(
    key: ResourceKey,
    spec: MultiClusterLeaseSpec,
    election: string | undefined,
    call: CallOptions,
  ): Promise<MultiClusterLease | undefined> {
    const annotations = election === undefined ? undefined : { [electionAnnotation]: election }
    const body = { apiVersion, kind, metadata: { name: key.name, annotations }, spec }
    const path = `${collectionOf(key.namespace)}${strict}`
    return this.#ask('create', key, { method: 'POST', path, body, ...call }, ['AlreadyExists'])
  }

  async patchSpec(key: ResourceKey, patch: SpecPatch, call: CallOptions): Promise<MultiClusterLease | undefined> {
    const path = `${pathOf(key)}${strict}`
    const body = { metadata: untracked, spec: patch }
    return this.#ask('patch', key, { method: 'PATCH', path, body, ...call }, ['NotFound'])
  }

  async patchStatus(
    { uid, ...key }: ResourceKey & { readonly uid: string },
    patch: StatusPatch,
    over: string | undefined,
    call: CallOptions,
  ): Promise<MultiClusterLease | undefined> {
    const path = `${pathOf(key)}/status${strict}`
    const body = { ...(over !== undefined && { metadata: { resourceVersion: over } }), status: patch }
    const request = { method: 'PATCH', path, body, ...call } as const
    const patched = await this.#ask('patch the status of', key, request, ['NotFound', 'Conflict'])
    return patched?.uid === uid ? patched : undefined
  }

  async *watch(of: ResourceScope, options: ResourceWatchOptions): AsyncGenerator<ResourceChange, void, undefined> {
    const { signal, isKnown } = options
    const path = collectionOf(of.namespace)
    const { name } = of
    const failed = (answer: ApiAnswer) => refusalOf(`Cannot list ${inWords(of.namespace)}`, answer)
    const look =
      of.name !== undefined
        ? (again: boolean) => this.#lookAt(of, again, { signal })
        : () => listAll(this.#client, { path, signal, failed })
    // A live candidate causes an event within its lease duration. The shortest lease since the last list determines the
    // watch timeout. If the candidate with that lease has died, the timeout triggers one more list, which resets the
    // timeout.
    let silenceMs = quietMs
    const skip = isKnown && ((line: string) => isKnownIn(line, isKnown))
    const parts = { client: this.#client, clock: this.#clock, path, name, signal, look, skip }
    const watched = { ...parts, silenceMs: () => silenceMs }
    for await (const event of follow<readonly unknown[]>(watched)) {
      if (event.type === 'all') {
        silenceMs = quietMs
        yield { type: 'all', resources: event.state.map(readResource).filter((resource) => resource !== undefined) }
        continue
      }
      const resource = readResource(event.object)
      if (!resource) continue
      const leaseMs = (resource.spec.leaseDurationSeconds ?? 0) * 1000
      if (leaseMs > 0) silenceMs = Math.min(silenceMs, Math.max(leastSilenceMs, leaseMs * 1.5))
      yield { type: event.type, resource }
    }
  }

  /**
   * Reads a single resource, which requires only the permission to get it. The API server may have compacted the
   * object's own version.
   */
  async #lookAt(key: ResourceKey, again: boolean, call: CallOptions): Promise<SeenVersion<readonly unknown[]>> {
    const answer = await this.#client.request({ method: 'GET', path: pathOf(key), ...call })
    if (isNotFound(answer)) return { state: [], from: anyVersion }
    const resource = readAnswer('get', key, answer)
    return { state: [answer.body], from: again ? anyVersion : resource.resourceVersion }
  }

  /** Returns undefined if the server refuses for one of these reasons. */
  async #ask(what: string, key: ResourceKey, call: ApiCall, refusals: readonly string[]) {
    const answer = await this.#client.request(call)
    if (refusals.includes(reasonOf(answer) ?? '')) return undefined
    return readAnswer(what, key, answer)
  }
}

function isKnownIn(line: string, isKnown: NonNullable<ResourceWatchOptions['isKnown']>): boolean {
  const version = versionIn(line)
  return version !== undefined && isKnown(version)
}

function readAnswer(what: string, { namespace, name }: ResourceKey, answer: ApiAnswer): MultiClusterLease {
  const said = `Cannot ${what} MultiClusterLease "${namespace}/${name}"`
  if (answer.status !== 200 && answer.status !== 201) throw refusalOf(said, answer)
  const resource = readResource(answer.body)
  if (resource) return resource
  throw new TenureError('RECORD_INVALID', `${said}: the API server returned a different kind of object.`)
}

function refusalOf(said: string, answer: ApiAnswer): TenureError {
  // The API server gives no reason for an unknown kind.
  if (answer.status === 404 && reasonOf(answer) === undefined) {
    const text = `${said}: the API server does not know the kind. Apply deploy/multicluster/crd.yaml.`
    return new TenureError('BACKEND_UNAVAILABLE', text, { retryable: true })
  }
  return new ApiError(said, answer, 'Bind a Role from deploy/multicluster to the user that the program runs as.')
}

function isNotFound(answer: ApiAnswer): boolean {
  return answer.status === 404 && reasonOf(answer) === 'NotFound'
}

function inWords(namespace: string | undefined): string {
  return `MultiClusterLeases ${namespace === undefined ? 'of all namespaces' : `in namespace "${namespace}"`}`
}

function collectionOf(namespace: string | undefined): string {
  return `/apis/${apiVersion}/${namespace === undefined ? '' : `namespaces/${namespace}/`}${plural}`
}

function pathOf({ namespace, name }: ResourceKey): string {
  return `${collectionOf(namespace)}/${name}`
}
