import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import type { Leadership } from '../../packages/tenure/src/engine/leadership.ts'
import { labelLeader, publishLeader } from '../../examples/kubernetes-leader-service/leader-service.mjs'
import type { Manifest } from './manifests.ts'
import { mount } from './fake-mount.ts'
import { sceneTest, type Scene } from './lease-fixture.ts'
import { newTestNamespace, type TestNamespace } from './test-namespace.ts'
import type { ApiServer } from '../servers/cluster.ts'
import { freePort } from '../servers/free-port.ts'
import { describeWithCluster } from '../servers/suite.ts'

const program = join(import.meta.dirname, '../../examples/kubernetes-leader-service/main.mjs')
const labels = { 'app.kubernetes.io/name': 'my-app' }
const leaseDurationMs = 3_000

interface Pods {
  readonly items: readonly { readonly metadata: { readonly name: string } }[]
}
interface Slice extends Manifest {
  readonly metadata: Manifest['metadata'] & { readonly annotations: Record<string, string> }
  readonly endpoints:
    | readonly { readonly addresses: readonly string[]; readonly targetRef: { readonly name: string } }[]
    | null
}

describeWithCluster('a Service that selects only the leader', (cluster) => {
  const { concurrent: sceneOf } = sceneTest(cluster)
  const pods = ['pod-a', 'pod-b', 'pod-c']
  const addressOf = (pod: string) => `10.0.0.${pods.indexOf(pod) + 1}`

  /** Creates a namespace with three pods and the rights of one component. */
  const prepare = async (scene: Scene, component: 'leader-label' | 'leader-endpoints') => {
    const files = ['.', `components/${component}`].flatMap((place) =>
      ['role', 'rolebinding'].map((file) => join(place, `${file}.yaml`)),
    )
    const tenant = await newTestNamespace(cluster(), [...files, `components/${component}/service.yaml`])
    scene.onEnd(tenant.remove)
    const spec = { containers: [{ name: 'my-app', image: 'my-app:1' }] }
    for (const name of pods) await tenant.create({ apiVersion: 'v1', kind: 'Pod', metadata: { name, labels }, spec })
    await tenant.hasRight('update', 'leases')
    const path = component === 'leader-label' ? 'pods' : 'endpointslices'
    await tenant.hasRight('get', path, component === 'leader-label' ? '' : 'my-app-leader')
    return tenant
  }
  const isLabelled = async ({ namespace }: TestNamespace) => {
    const query = new URLSearchParams({ labelSelector: 'app.kubernetes.io/name=my-app,tenure.dev/leader=true' })
    const { body } = await cluster().admin.request<Pods>(
      'GET',
      `/api/v1/namespaces/${namespace}/pods?${query.toString()}`,
    )
    return body.items.map(({ metadata }) => metadata.name)
  }
  const sliceIn = async ({ namespace }: TestNamespace) => {
    const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices/my-app-leader`
    const { status, body } = await cluster().admin.request<Slice>('GET', path)
    return status === 200 ? body : undefined
  }
  const isPublished = async (tenant: TestNamespace) =>
    ((await sliceIn(tenant))?.endpoints ?? []).map(
      ({ addresses: [address], targetRef }) => `${targetRef.name} ${address}`,
    )
  const shown = (found: () => Promise<string[]>, expected: string[]) =>
    vi.waitFor(async () => expect(await found()).toEqual(expected), { timeout: 30_000, interval: 50 })

  for (const way of ['label', 'endpoints'] as const) {
    sceneOf(
      `the Service selects the new leader after crashes, pauses, and clean stops, by ${way}`,
      { timeout: 60_000 },
      async ({ scene }) => {
        const tenant = await prepare(scene, `leader-${way}`)
        const follows = (pod: string) =>
          shown(
            () => (way === 'label' ? isLabelled(tenant) : isPublished(tenant)),
            [way === 'label' ? pod : `${pod} ${addressOf(pod)}`],
          )
        const start = (pod: string) =>
          runPod(scene, cluster(), tenant, { POD_NAME: pod, LEADER_SERVICE: way, POD_IP: addressOf(pod) })
        const first = await start('pod-a')
        await follows('pod-a')
        expect(await first.asked()).toEqual([200, 'pod-a leads\n'])
        const second = await start('pod-b')
        expect(await second.asked()).toEqual([503, 'pod-b does not lead\n'])
        const status = `leader_election_master_status{name="my-app",lease_namespace="${tenant.namespace}"}`
        expect((await first.asked('metrics'))[1]).toContain(`${status} 1\n`)
        first.kill('SIGKILL')
        await follows('pod-b')
        second.kill('SIGSTOP')
        const third = await start('pod-c')
        await follows('pod-c')
        second.kill('SIGCONT')
        // Once it prints this, it has completed the work that the pause interrupted.
        await second.says('pod-b no longer leads')
        await follows('pod-c')
        expect(await second.asked()).toEqual([503, 'pod-b does not lead\n'])
        third.kill('SIGTERM')
        await follows('pod-b')
        second.kill('SIGTERM')
        await second.ended
        expect(way === 'label' ? await isLabelled(tenant) : await isPublished(tenant)).toEqual([])
      },
    )
  }

  sceneOf('the Service does not keep a former leader whose label was written late', async ({ scene }) => {
    const tenant = await prepare(scene, 'leader-label')
    const { namespace } = tenant
    scene.replica('pod-a', {
      leaseName: 'my-app',
      leaseNamespace: namespace,
      via: { token: () => tenant.token },
      work: (_signal, leadership) => {
        const client = scene.client({ token: () => tenant.token })
        const onError = (error: unknown) => expect.fail(String(error))
        return labelLeader({
          client,
          namespace,
          pod: 'pod-a',
          selector: 'app.kubernetes.io/name=my-app',
          leadership,
          onError,
        })
      },
    })
    await shown(() => isLabelled(tenant), ['pod-a'])
    const path = `/api/v1/namespaces/${namespace}/pods/pod-b`
    const late = { metadata: { labels: { 'tenure.dev/leader': 'true' } } }
    expect((await cluster().admin.request('PATCH', path, late)).status).toBe(200)
    await shown(() => isLabelled(tenant), ['pod-a'])
  })

  sceneOf('the Service never selects a former leader whose EndpointSlice was written late', async ({ scene }) => {
    const tenant = await prepare(scene, 'leader-endpoints')
    const { namespace } = tenant
    const client = scene.client({ token: () => tenant.token })
    const publish = (pod: string, request: typeof client.request = (call) => client.request(call)) => ({
      leaseName: 'my-app',
      leaseNamespace: namespace,
      via: { token: () => tenant.token },
      work: (_signal: AbortSignal, leadership: Leadership) =>
        publishLeader({
          client: { request },
          namespace,
          pod,
          service: 'my-app-leader',
          address: addressOf(pod),
          port: { name: 'http', port: 8080 },
          leadership,
          onError: () => undefined,
        }),
    })
    // The write of the first leader is in flight until the second one has written.
    let isHeld: () => void = () => undefined
    let goOn: () => void = () => undefined
    const held = new Promise<void>((resolve) => (isHeld = resolve))
    const mayGoOn = new Promise<void>((resolve) => (goOn = resolve))
    const answers: number[] = []
    const first = scene.replica('pod-a', {
      ...publish('pod-a', async (call) => {
        if (call.method === 'GET') return client.request(call)
        isHeld()
        await mayGoOn
        const answer = await client.request(call)
        answers.push(answer.status)
        return answer
      }),
    })
    await cluster().admin.request('POST', `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`, {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      addressType: 'IPv4',
      metadata: { name: 'my-app-leader', labels: { 'kubernetes.io/service-name': 'my-app-leader' } },
      endpoints: [],
    })
    await held
    first.abort()
    // The work of the leader does not end, so its lease expires.
    scene.replica('pod-b', publish('pod-b'))
    await shown(() => isPublished(tenant), [`pod-b ${addressOf('pod-b')}`])
    goOn()
    await first.run
    await vi.waitFor(() => expect(answers[0]).toBe(409), 10_000)
    expect(await isPublished(tenant)).toEqual([`pod-b ${addressOf('pod-b')}`])
    expect((await sliceIn(tenant))?.metadata.annotations).toEqual({ 'tenure.dev/term': '2' })
  })
})

test('kubernetes-leader-service: it names the missing kubeconfig and ends when there is no cluster', () => {
  const { KUBERNETES_SERVICE_HOST: _, ...env } = process.env
  const lost = { ...env, KUBECONFIG: join(tmpdir(), 'no-such-kubeconfig') }
  const { status, stderr } = spawnSync(process.execPath, [program], { env: lost, encoding: 'utf8', timeout: 20_000 })
  expect(status).toBe(1)
  expect(stderr).toMatch(/The kubeconfig .* does not exist/)
})

/** Runs the program of the example as in a pod. */
async function runPod(scene: Scene, { port }: ApiServer, tenant: TestNamespace, env: Record<string, string>) {
  const own = await freePort()
  const child = spawn(process.execPath, [program], {
    env: {
      ...process.env,
      KUBERNETES_SERVICE_HOST: '127.0.0.1',
      KUBERNETES_SERVICE_PORT: String(port),
      NODE_OPTIONS: mount('/var/run/secrets/kubernetes.io/serviceaccount', tenant.folder),
      POD_NAMESPACE: tenant.namespace,
      LEASE_DURATION_MS: String(leaseDurationMs),
      PORT: String(own),
      ...env,
    },
  })
  const ended = once(child, 'close')
  scene.onEnd(async () => {
    child.kill('SIGKILL')
    await ended
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
  const asked = async (path = ''): Promise<[status: number, text: string]> => {
    const response = await fetch(`http://127.0.0.1:${own}/${path}`)
    return [response.status, await response.text()]
  }
  await vi.waitFor(() => asked(), { timeout: 10_000, interval: 50 })
  return {
    ended,
    asked,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    says: (line: string) => vi.waitFor(() => expect(said).toContain(`${line}\n`), { timeout: 15_000, interval: 20 }),
  }
}
