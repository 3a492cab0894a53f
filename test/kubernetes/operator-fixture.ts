import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, vi } from 'vitest'
import type { ApiServer } from '../servers/cluster.ts'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import { startApiServerProxy } from './api-server-proxy.ts'
import { kubeConfigOf } from './kube-config.ts'
import { parseObjects } from './manifests.ts'
import { startReplica } from './start-replica.ts'
import { newTestNamespace } from './test-namespace.ts'

const example = join(import.meta.dirname, '../../examples/kubernetes-operator')
const leaseMs = 6_000
const patience = { timeout: 30_000, interval: 10 }

/** The objects of the example's manifest. */
export const operatorObjects = parseObjects(readFileSync(join(example, 'operator.yaml'), 'utf8'))

interface ConfigMap {
  readonly metadata: { readonly name: string; readonly annotations?: Record<string, string> } & Record<string, unknown>
  readonly data?: Record<string, string>
}

/** One version of a derived ConfigMap, as a continuous watch saw it. */
interface Version {
  readonly name: string
  readonly term: number
  readonly count: number
}

const countOf = ({ data }: ConfigMap) => Number(/COUNT="(\d+)"/.exec(data?.['app.env'] ?? '')?.[1])
const termOf = ({ metadata }: ConfigMap) => Number(metadata.annotations?.['example.com/term'])

/** A promise that the test resolves later. */
export function newGate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => (open = resolve))
  return { opened, open: () => open() }
}

/** Creates a namespace with the objects of the manifest, ConfigMaps to reconcile, and replicas of the operator. */
export async function prepareOperator(cluster: ApiServer) {
  const [account, ...others] = operatorObjects
  const tenant = await newTestNamespace(cluster, [], account)
  onTestFinished(tenant.remove)
  for (const manifest of others) await tenant.create(manifest)
  await tenant.hasRight('watch', 'leases')
  await tenant.hasRight('watch', 'configmaps')
  const { namespace, token } = tenant
  const { admin } = cluster
  const path = `/api/v1/namespaces/${namespace}/configmaps`
  const read = async (name: string) => (await admin.request<ConfigMap>('GET', `${path}/${name}`)).body
  return {
    read,
    versions: await recordVersions(cluster, path),
    create: (body: ConfigMap) => admin.request('POST', path, body),
    createSource: (name: string) =>
      admin.request('POST', path, {
        metadata: { name, labels: { 'example.com/env-file': 'source' } },
        data: { COUNT: '0' },
      }),
    change: (name: string, patch: object) => admin.request<ConfigMap>('PATCH', `${path}/${name}`, patch),
    remove: (name: string) => admin.request('DELETE', `${path}/${name}`),
    changeLease: (spec: object) =>
      admin.request('PATCH', `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/my-operator`, { spec }),
    /** Waits until the leader of this term has written the ConfigMap with this count. */
    isDerived: (name: string, term: number, count: number) =>
      vi.waitFor(async () => {
        const found = await read(`${name}-env`)
        expect({ term: termOf(found), count: countOf(found) }).toEqual({ term, count })
      }, patience),
    replica: (name: string) => startOperator(cluster, { namespace, token, name }),
  }
}

export type Operator = Awaited<ReturnType<typeof startOperator>>

/** Starts a replica whose requests to the API server are recorded. */
async function startOperator(cluster: ApiServer, place: { namespace: string; token: string; name: string }) {
  const { namespace, token, name } = place
  const front = await startApiServerProxy(cluster, () => performance.now())
  onTestFinished(front.stop)
  const folder = mkdtempSync(join(tmpdir(), 'tenure-operator-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const KUBECONFIG = join(folder, 'config')
  writeFileSync(KUBECONFIG, kubeConfigOf(cluster, { port: front.port, token }))
  const env = { KUBECONFIG, POD_NAME: name, POD_NAMESPACE: namespace, LEASE_DURATION_MS: String(leaseMs) }
  // Node.js 20 does not run TypeScript.
  const replica = await startReplica(join(example, 'main.ts'), env, pathOf(programs.node24))
  const lastTerm = () =>
    Math.max(0, ...replica.lines().map((line) => Number(/ watches in term (\d+)$/.exec(line)?.[1] ?? 0)))
  const requests = () => front.requests.filter(({ path }) => path.includes('/configmaps'))
  const openWatches = () => requests().filter(({ isWatch, endedAtMs }) => isWatch && endedAtMs === undefined)
  return {
    ...replica,
    name,
    front,
    /** Waits until the replica leads in a term above this one. Returns that term. */
    async leadsAfter(term: number): Promise<number> {
      await vi.waitFor(
        () => expect(lastTerm(), `${name}:\n${replica.lines().join('\n')}`).toBeGreaterThan(term),
        patience,
      )
      return lastTerm()
    },
    /** The recorded requests for ConfigMaps. */
    requests,
    writes: () => requests().filter(({ method }) => method !== 'GET'),
    /** Waits until the replica watches both sources and derived ConfigMaps, or neither. */
    hasWatches: (count: 0 | 2) => vi.waitFor(() => expect(openWatches(), name).toHaveLength(count), patience),
  }
}

/** Records all versions of derived ConfigMaps in the order in which the API server accepted them. */
async function recordVersions(cluster: ApiServer, path: string): Promise<readonly Version[]> {
  const { url, ca, adminToken, admin } = cluster
  const versions: Version[] = []
  const list = await admin.request<{ metadata: { resourceVersion: string } }>('GET', path)
  const { resourceVersion } = list.body.metadata
  const query = new URLSearchParams({ watch: 'true', resourceVersion, labelSelector: 'example.com/env-file=derived' })
  const headers = { authorization: `Bearer ${adminToken}` }
  const watch = request(new URL(`${path}?${query.toString()}`, url), { ca, headers, agent: false }).end()
  onTestFinished(() => void watch.destroy())
  const [response] = (await once(watch, 'response')) as [IncomingMessage]
  expect(response.statusCode).toBe(200)
  const lines = createInterface(response)
  // The watch is cut off when the test has finished.
  for (const stream of [watch, response, lines]) stream.on('error', () => undefined)
  lines.on('line', (line) => {
    const { type, object } = JSON.parse(line) as { type: string; object: ConfigMap }
    if (type === 'ERROR') throw new Error(line)
    if (type === 'DELETED') return
    versions.push({ name: object.metadata.name, term: termOf(object), count: countOf(object) })
  })
  return versions
}
