import { isObject } from '@tenure/internal/objects'
import { TenureError } from '../common/errors.ts'
import type { CallOptions } from '../engine/lease-store.ts'
import type { ApiAnswer } from '../clients/kubernetes/api-error.ts'
import type { KubernetesClient } from '../clients/kubernetes/client.ts'
import { asText } from './codec/lease.ts'

/** A kind of object that stores elections. */
export interface ElectionKind<Write extends string = string> {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
  /** The verb required for renewals and takeovers. */
  readonly write: Write
  /** The directory that contains a Role. */
  readonly manifests: string
}

const leases: ElectionKind<'update'> = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  write: 'update',
  manifests: 'deploy/kubernetes',
}

/** A verb that an elector uses. */
type KubernetesVerb<Write extends string = string> = 'get' | 'create' | 'watch' | Write

/** The permissions of a caller on the object of one election, according to the API server. */
export type KubernetesRights<Write extends string> = Readonly<Record<KubernetesVerb<Write>, boolean>> & {
  /**
   * Whether these permissions are enough for an elector. An elector works without `watch`, and without `create` once
   * the object exists.
   */
  readonly enough: boolean
  /**
   * Returns a message that names the user, the missing permission, the object, the effect, and what to apply. Undefined
   * if nothing is missing.
   */
  readonly missing: TenureError | undefined
}

/** The permissions of a caller on one Lease. */
export type LeaseRights = KubernetesRights<'update'>

interface AccessTarget {
  readonly namespace: string
  readonly name: string
}

const reviewPath = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
const selfPath = '/apis/authentication.k8s.io/v1/selfsubjectreviews'
/** Timeout for each request. */
const requestTimeoutMs = 5_000
/**
 * The last check of each client. Electors that share a client check in turn, so that they open only one more
 * connection.
 */
const turns = new WeakMap<KubernetesClient, Promise<unknown>>()

/**
 * Asks which permissions the caller has, without using them: four requests, or up to six if one is missing. Undefined
 * if that cannot be determined: the request is forbidden, unknown to the server, unanswered, or fails. `question` is
 * added to the message about a missing permission.
 */
export function askRights(
  client: KubernetesClient,
  place: AccessTarget,
  question: string,
  call: CallOptions,
): Promise<LeaseRights | undefined> {
  return askRightsOn(leases, client, place, question, call)
}

/** Asks which permissions the caller has on a kind of object, as {@link askRights} does for Leases. */
export function askRightsOn<Write extends string>(
  kind: ElectionKind<Write>,
  client: KubernetesClient,
  place: AccessTarget,
  question: string,
  call: CallOptions,
): Promise<KubernetesRights<Write> | undefined> {
  const turn = (turns.get(client) ?? Promise.resolve()).then(() => ask(kind, client, place, question, call))
  turns.set(client, turn)
  return turn
}

async function ask<Write extends string>(
  kind: ElectionKind<Write>,
  client: KubernetesClient,
  place: AccessTarget,
  question: string,
  { signal }: CallOptions,
): Promise<KubernetesRights<Write> | undefined> {
  const request: Ask = (method, path, body) =>
    client.request({ method, path, ...(body && { body }), signal, timeoutMs: requestTimeoutMs })
  const verbs: readonly KubernetesVerb<Write>[] = ['get', 'create', kind.write, 'watch']
  const allowed = Object.fromEntries(verbs.map((verb) => [verb, false])) as Record<KubernetesVerb<Write>, boolean>
  let remark = ''
  try {
    // Check write access first. Without this check, a missing permission would show only at the first renewal.
    for (const verb of [kind.write, 'get', 'create', 'watch'] as const) {
      const status = statusOf(await request('POST', reviewPath, reviewOf(kind, verb, place)))
      if (typeof status?.['allowed'] !== 'boolean') return undefined
      // An authorizer failed, for example a webhook. It may allow this once it works again.
      if (!status['allowed'] && asText(status['evaluationError']) !== '') return undefined
      allowed[verb] = status['allowed']
      // The reason may be, for example, that a bound Role does not exist.
      if (!status['allowed']) remark ||= asText(status['reason'])
    }
    const lacks = verbs.filter((verb) => !allowed[verb])
    if (lacks.length === 0) return { ...allowed, enough: true, missing: undefined }
    const needsNoCreate = !allowed.create && allowed.get && (await exists(request, kind, place))
    const missing = lacks.filter((verb) => verb !== 'create' || !needsNoCreate)
    const enough = missing.every((verb) => verb === 'watch')
    if (missing.length === 0) return { ...allowed, enough, missing: undefined }
    const user = userOf(await request('POST', selfPath, selfReview))
    return { ...allowed, enough, missing: missingRightError(kind, missing, place, { user, remark, question }) }
  } catch {
    // The election uses the same server and reports the server's errors.
    return undefined
  }
}

type Ask = (method: 'GET' | 'POST', path: string, body?: object) => Promise<ApiAnswer>

const selfReview = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }

/** A Role may be limited to one object by its name, but "create" is authorized before the name is known. */
function reviewOf({ group, plural }: ElectionKind, verb: KubernetesVerb, { namespace, name }: AccessTarget): object {
  const named = verb === 'create' ? {} : { name }
  return {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: { namespace, verb, group, resource: plural, ...named } },
  }
}

function statusOf({ status, body }: ApiAnswer): Record<string, unknown> | undefined {
  const answered = status === 201 && isObject(body) ? body['status'] : undefined
  return isObject(answered) ? answered : undefined
}

async function exists(
  request: Ask,
  { group, version, plural }: ElectionKind,
  { namespace, name }: AccessTarget,
): Promise<boolean> {
  return (await request('GET', `/apis/${group}/${version}/namespaces/${namespace}/${plural}/${name}`)).status === 200
}

/** The caller's user name. Undefined before Kubernetes 1.28, where this review does not exist. */
function userOf(answer: ApiAnswer): string | undefined {
  const info = statusOf(answer)?.['userInfo']
  return (isObject(info) && asText(info['username'])) || undefined
}

function missingRightError(
  kind: ElectionKind,
  missing: readonly KubernetesVerb[],
  { namespace, name }: AccessTarget,
  { user, remark, question }: { readonly user: string | undefined; readonly remark: string; readonly question: string },
): TenureError {
  const who = user === undefined ? 'The user of this program' : `"${user}"`
  const what = missing.length < 2 ? missing.join('') : `${missing.slice(0, -1).join(', ')} or ${missing.at(-1)}`
  const added = remark === '' ? '' : ` The API server adds: ${remark.replace(/\.?$/, '.')}`
  const text = `${who} may not ${what} ${kind.kind} "${namespace}/${name}".${added} ${effectOf(kind, missing)}`
  if (missing.every((verb) => verb === 'watch')) return new TenureError('MISSING_RIGHT', text)
  return new TenureError('MISSING_RIGHT', `${text}${question} ${toApply(kind, user, namespace)}`)
}

function effectOf({ kind, write }: ElectionKind, missing: readonly KubernetesVerb[]): string {
  if (missing.includes('get')) return 'It cannot take part in the election.'
  if (missing.includes(write)) return 'It can neither renew nor take over: its leadership ends at the deadline.'
  if (missing.includes('create')) return `It must wait until another program creates the ${kind}.`
  return 'The election works without it, but standbys poll. Add "watch" to its Role for faster takeovers.'
}

function toApply({ group, plural, write, manifests }: ElectionKind, user = 'NAME', namespace: string): string {
  const [, account] = /^system:serviceaccount:([a-z0-9.-]+:[a-z0-9.-]+)$/.exec(user) ?? []
  const subject = account === undefined ? `--user=${asWord(user)}` : `--serviceaccount=${account}`
  const role = `kubectl create role tenure -n ${namespace} --verb=get,create,${write},watch --resource=${plural}.${group}`
  const binding = `kubectl create rolebinding tenure -n ${namespace} --role=tenure ${subject}`
  return `Bind the Role from ${manifests} to it in namespace "${namespace}", or run: ${role} && ${binding}`
}

/** Quotes text, so that a shell reads it as one word. */
function asWord(text: string): string {
  return /^[\w.:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** A hint for errors, if the default namespace may not be the intended one. */
export function defaultNamespaceHint(namespace: string): string {
  if (namespace !== 'default' || process.env['POD_NAMESPACE']) return ''
  return ' The namespace is "default" because POD_NAMESPACE is not set. If another one is meant, set POD_NAMESPACE with the downward API, or pass the namespace.'
}
