// Two ways to keep only the leader in the endpoints of a Service. Both run as work of the leader: they take its
// leadership, and the lease is not released before they have finished. main.mjs shows how.
//
// Both check again every two seconds. So the leader repairs writes that were lost or late, and changes made by hand.
import { setTimeout as wait } from 'node:timers/promises'

/** @typedef {Pick<import('tenure/kubernetes').KubernetesClient, 'request'>} Client */
/** @typedef {Pick<import('tenure').Leadership, 'term' | 'signal' | 'isLeader'>} Leadership */
/** @typedef {Record<string, any>} Resource an object of the Kubernetes API */

/**
 * The options of both functions.
 * @typedef {object} Leading
 * @property {Client} client
 * @property {string} namespace
 * @property {string} pod this pod's name
 * @property {Leadership} leadership
 * @property {(error: unknown) => void} onError called with each error, before a retry
 */

const leaderLabel = 'tenure.dev/leader'
const termAnnotation = 'tenure.dev/term'
const everyMs = 2_000
const timeoutMs = 3_000

/**
 * Keeps the label `tenure.dev/leader: 'true'` on this pod, and removes it from all others that the selector matches.
 * @param {Leading & { selector: string }} options
 */
export async function labelLeader({ client, namespace, pod, selector, leadership, onError }) {
  const pods = `/api/v1/namespaces/${namespace}/pods`

  /** @param {Resource} object @param {boolean} leads */
  const mark = async (object, leads) => {
    const { name, labels: { [leaderLabel]: marked, ...labels } = /** @type {Resource} */ ({}) } = object.metadata
    if ((marked === 'true') === leads) return
    if (leads) labels[leaderLabel] = 'true'
    await ask(client, 'PUT', `${pods}/${name}`, { ...object, metadata: { ...object.metadata, labels } })
  }
  const keep = async () => {
    const query = new URLSearchParams({ labelSelector: `${selector},${leaderLabel}=true` })
    const { items } = await ask(client, 'GET', `${pods}?${query.toString()}`)
    // Remove the label from the former leader first.
    for (const object of items) {
      if (object.metadata.name !== pod && leadership.isLeader()) await mark(object, false)
    }
    const own = await ask(client, 'GET', `${pods}/${pod}`)
    if (!own) throw new Error(`There is no pod ${pod} in ${namespace}. Check POD_NAME.`)
    if (leadership.isLeader()) await mark(own, true)
  }
  const leave = async () => {
    const own = await ask(client, 'GET', `${pods}/${pod}`)
    if (own) await mark(own, false)
  }
  await whileLeading(leadership, keep, leave, onError)
}

/**
 * Keeps only this pod's address in the EndpointSlice that has the Service's name.
 * @param {Leading & { service: string, address: string, port: { name: string, port: number } }} options
 */
export async function publishLeader({ client, namespace, pod, service, address, port, leadership, onError }) {
  const slices = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`
  const { term } = leadership
  const endpoint = {
    addresses: [address],
    conditions: { ready: true },
    targetRef: { kind: 'Pod', namespace, name: pod },
  }
  const termOf = (/** @type {Resource | undefined} */ slice) =>
    Number(slice?.metadata.annotations?.[termAnnotation] ?? 0)

  /** Replaces only the version that was read. @param {Resource | undefined} before @param {object[]} endpoints */
  const write = async (before, endpoints) => {
    const labels = { 'kubernetes.io/service-name': service, 'endpointslice.kubernetes.io/managed-by': 'tenure.dev' }
    const slice = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      addressType: address.includes(':') ? 'IPv6' : 'IPv4',
      metadata: { ...before?.metadata, name: service, namespace, labels, annotations: { [termAnnotation]: `${term}` } },
      endpoints,
      ports: [{ ...port, protocol: 'TCP' }],
    }
    await (before ? ask(client, 'PUT', `${slices}/${service}`, slice) : ask(client, 'POST', slices, slice))
  }
  const keep = async () => {
    const before = await ask(client, 'GET', `${slices}/${service}`)
    if (!leadership.isLeader()) return
    if (termOf(before) > term) {
      throw new Error(
        `EndpointSlice ${service} has term ${termOf(before)}, but this leader has term ${term}. If the Lease was deleted, also delete the EndpointSlice.`,
      )
    }
    const isDone = termOf(before) === term && before?.endpoints?.[0]?.addresses[0] === address
    if (!isDone) await write(before, [endpoint])
  }
  const leave = async () => {
    const before = await ask(client, 'GET', `${slices}/${service}`)
    // Publish no endpoint until the next leader does. A refused connection is better than a replica that does not lead.
    if (termOf(before) === term) await write(before, [])
  }
  await whileLeading(leadership, keep, leave, onError)
}

/**
 * @param {Leadership} leadership
 * @param {() => Promise<void>} keep called repeatedly while it leads
 * @param {() => Promise<void>} leave called once at the end. If it fails, the next leader repairs it.
 * @param {(error: unknown) => void} onError
 */
async function whileLeading({ signal }, keep, leave, onError) {
  while (!signal.aborted) {
    const pauseMs = await attempt(keep, onError)
    await wait(pauseMs, undefined, { signal }).catch(() => {})
  }
  for (let tries = 0; tries < 3; tries++) if ((await attempt(leave, onError)) === everyMs) break
}

/**
 * Returns how long to wait. A concurrent write by another client is not an error. @param {() => Promise<void>} act
 * @param {(error: unknown) => void} onError
 */
async function attempt(act, onError) {
  try {
    await act()
  } catch (error) {
    if (error instanceof Overtaken) return 50
    onError(error)
  }
  return everyMs
}

class Overtaken extends Error {}

/**
 * Calls the API server. Returns undefined for an object that does not exist.
 * @param {Client} client
 * @param {'GET' | 'POST' | 'PUT'} method
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<any>}
 */
async function ask(client, method, path, body) {
  // Do not use the signal of the leadership, because these writes must be undone after leadership has ended.
  const { signal } = new AbortController()
  const answer = await client.request({ method, path, body, signal, timeoutMs })
  if (answer.status < 300) return answer.body
  if (answer.status === 404 && method === 'GET') return undefined
  if (answer.status === 409) throw new Overtaken()
  throw new Error(`${method} ${path} returned ${answer.status}: ${JSON.stringify(answer.body)}`)
}
