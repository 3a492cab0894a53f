import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { ApiServer } from '../servers/cluster.ts'
import { startProxy } from '../servers/proxy.ts'
import { describeWithCluster } from '../servers/suite.ts'
import { collectionOf, readManifest } from './manifests.ts'
import { mount } from './fake-mount.ts'
import { startReplica } from './start-replica.ts'
import { newTestNamespace, type TestNamespace } from './test-namespace.ts'

const program = join(import.meta.dirname, '../../examples/kubernetes-deployment/main.mjs')
const rights = ['role.yaml', 'rolebinding.yaml', 'components/events/role.yaml', 'components/events/rolebinding.yaml']
const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] }
const start = (env: Record<string, string>) => startReplica(program, env)

describeWithCluster('the program of the Deployment', (cluster) => {
  /** Creates a namespace with these rights, and starts replicas in it. */
  const prepare = async (...files: string[]) => {
    const tenant = await newTestNamespace(cluster(), files)
    onTestFinished(tenant.remove)
    if (files.includes('role.yaml')) await tenant.hasRight('watch', 'leases')
    const place = { POD_NAMESPACE: tenant.namespace, KUBECONFIG: kubeConfigOf(cluster(), tenant) }
    return {
      tenant,
      replica: (name: string, env: Record<string, string> = {}) => start({ ...place, POD_NAME: name, ...env }),
      leaseOf: async () => {
        const path = `/apis/coordination.k8s.io/v1/namespaces/${tenant.namespace}/leases/my-app`
        return (await cluster().admin.request<{ spec: Record<string, unknown> }>('GET', path)).body.spec
      },
    }
  }

  test('the Deployment example leads in one of two replicas, and in the other as soon as the first is told to stop', async () => {
    const { replica } = await prepare(...rights)
    const first = await replica('pod-a')
    await first.says('pod-a works in term 1, round 1')
    const second = await replica('pod-b')
    await second.says('pod-b sees that pod-a leads')
    expect(await first.asked('/healthz')).toEqual([200, expect.stringContaining('This replica leads')])
    expect(await second.asked('/healthz')).toEqual([200, 'This replica does not lead.\n'])
    for (const one of [first, second]) expect(await one.asked('/readyz')).toEqual([200, 'The lease of pod-a runs.\n'])
    const status = (value: number) => new RegExp(`^leader_election_master_status{.*} ${value}$`, 'm')
    expect(await first.asked('/metrics')).toEqual([200, expect.stringMatching(status(1))])
    expect(await second.asked('/metrics')).toEqual([200, expect.stringMatching(status(0))])

    first.kill('SIGTERM')
    expect(await first.ended).toEqual({ code: 0, signal: null })
    const endedMs = performance.now()
    await second.says('pod-b started leading in term 2')
    // Without its watch, a second replica would have polled a second later at the earliest.
    expect(performance.now() - endedMs).toBeLessThan(900)
    expect(first.lines().slice(-5)).toEqual([
      'pod-a is asked to stop',
      'pod-a finished its work',
      'pod-a lost term 1: stopped',
      'pod-a stopped leading',
      'pod-a has ended',
    ])
    second.kill('SIGINT')
    expect(await second.ended).toEqual({ code: 0, signal: null })
  })

  test('the Deployment example runs as a pod does, with the files of its service account, and writes Events', async () => {
    const { tenant, replica, leaseOf } = await prepare(...rights)
    await tenant.hasRight('create', 'events')
    const pod = await replica('pod-a', {
      KUBERNETES_SERVICE_HOST: '127.0.0.1',
      KUBERNETES_SERVICE_PORT: String(cluster().port),
      KUBECONFIG: '',
      NODE_OPTIONS: mount('/var/run/secrets/kubernetes.io/serviceaccount', tenant.folder),
      RECORD_EVENTS: 'true',
    })
    await pod.says('pod-a started leading in term 1')
    expect(await leaseOf()).toMatchObject({ holderIdentity: 'pod-a', leaseDurationSeconds: 15, leaseTransitions: 1 })
    pod.kill('SIGTERM')
    expect(await pod.ended).toEqual({ code: 0, signal: null })
    expect(await leaseOf()).not.toHaveProperty('holderIdentity')
    const path = `/api/v1/namespaces/${tenant.namespace}/events`
    const { body } = await cluster().admin.request<{ items: { message: string }[] }>('GET', path)
    expect(body.items.map(({ message }) => message).toSorted()).toEqual([
      'pod-a became leader',
      'pod-a stopped leading',
    ])
  })

  test('the Deployment example ends at once on a second signal and keeps its Lease', async () => {
    const { replica, leaseOf } = await prepare(...rights)
    const stubborn = await replica('pod-a', { WIND_DOWN_MS: '60000' })
    await stubborn.says('pod-a works in term 1, round 1')
    stubborn.kill('SIGTERM')
    await stubborn.says('pod-a is asked to stop')
    expect(await stubborn.asked('/readyz')).toEqual([503, 'The replica is stopping.\n'])
    expect((await stubborn.asked('/healthz'))[0]).toBe(200)
    stubborn.kill('SIGTERM')
    expect(await stubborn.ended).toEqual({ code: 1, signal: null })
    expect(await leaseOf()).toMatchObject({ holderIdentity: 'pod-a' })
  })

  test('the Deployment example is not ready without rights, names the missing ones, and leads when it gets them', async () => {
    const { tenant, replica } = await prepare()
    const pod = await replica('pod-a')
    await pod.says(/^pod-a error: Cannot get Lease "tenant-[\w-]+\/my-app": the API server denied the request/)
    expect(await pod.asked('/readyz')).toEqual([503, expect.stringContaining('may not get, create, update or watch')])
    expect((await pod.asked('/healthz'))[0]).toBe(200)
    await pod.says(
      /^pod-a error: "system:serviceaccount:.*" may not get, create, update or watch Lease .*or run: kubectl/,
    )
    for (const file of ['role.yaml', 'rolebinding.yaml']) await tenant.create(readManifest(file))
    await pod.says('pod-a started leading in term 1')
    expect((await pod.asked('/readyz'))[0]).toBe(200)
    pod.kill('SIGTERM')
    expect(await pod.ended).toEqual({ code: 0, signal: null })
  })

  test('the Deployment example blocks a rollout whose new pods could not lead, even while an old pod leads', async () => {
    const { tenant, replica } = await prepare('rolebinding.yaml')
    const { namespace } = tenant
    const readRole = { ...readManifest('role.yaml'), rules: [{ ...leases, verbs: ['get', 'watch'] }] }
    await tenant.create(readRole)
    await tenant.hasRight('watch', 'leases')
    const KUBECONFIG = kubeConfigOf(cluster(), { namespace, token: cluster().adminToken })
    const old = await replica('pod-a', { KUBECONFIG })
    await old.says('pod-a started leading in term 1')
    const pod = await replica('pod-b')
    await pod.says('pod-b sees that pod-a leads')
    expect(await pod.asked('/readyz')).toEqual([503, expect.stringContaining('may not update Lease')])
    expect(await old.asked('/readyz')).toEqual([200, 'The lease of pod-a runs.\n'])
    const path = `${collectionOf(readRole, namespace)}/my-app`
    expect((await cluster().admin.request('PUT', path, readManifest('role.yaml'))).status).toBe(200)
    // The pod does not have to be restarted.
    await vi.waitFor(async () => expect((await pod.asked('/readyz'))[0]).toBe(200), { timeout: 15_000 })
  })

  test('the Deployment example is not ready when it leads but cannot renew, and its log drops no line', async () => {
    const { tenant, replica } = await prepare('rolebinding.yaml')
    await tenant.create({ ...readManifest('role.yaml'), rules: [{ ...leases, verbs: ['get', 'create', 'watch'] }] })
    await tenant.hasRight('create', 'leases')
    const pod = await replica('pod-a', { LEASE_DURATION_MS: '3000' })
    await pod.says('pod-a started leading in term 1')
    expect(await pod.asked('/readyz')).toEqual([503, expect.stringContaining('may not update Lease')])
    await pod.says(/^pod-a error: .* may not update Lease ".*"\. It can neither renew nor take over/)
    await pod.says('pod-a lost term 1: expired')
    expect((await pod.asked('/healthz'))[0]).toBe(200)
    const refused = pod.lines().filter((line) => line.startsWith('pod-a renew-failed: Cannot update Lease'))
    expect(refused.length, 'one line for each failure, although the lines are equal').toBeGreaterThan(1)
    expect(new Set(refused).size).toBe(1)
  })

  test('a standby of the Deployment example that is cut off is not ready once the lease that it saw has expired', async () => {
    const { tenant, replica } = await prepare(...rights)
    const proxy = await startProxy(cluster().port)
    onTestFinished(() => proxy.stop())
    const short = { LEASE_DURATION_MS: '3000' }
    const leader = await replica('pod-a', short)
    await leader.says('pod-a started leading in term 1')
    const detour = { ...cluster(), url: `https://127.0.0.1:${proxy.port}` }
    const standby = await replica('pod-b', { ...short, KUBECONFIG: kubeConfigOf(detour, tenant) })
    await standby.says('pod-b sees that pod-a leads')
    const statusOf = async (one: typeof standby) => (await one.asked('/readyz'))[0]
    expect(await statusOf(standby)).toBe(200)
    proxy.set('blackhole')
    await vi.waitFor(async () => expect(await statusOf(standby)).toBe(503), { timeout: 15_000 })
    expect(await statusOf(leader)).toBe(200)
    proxy.set('pass')
    await vi.waitFor(async () => expect(await statusOf(standby)).toBe(200), { timeout: 15_000 })
  })
})

test('kubernetes-deployment: it names the missing kubeconfig and ends when there is no cluster', async () => {
  const lost = await start({ POD_NAME: 'pod-a', KUBECONFIG: join(tmpdir(), 'no-such-kubeconfig') })
  expect(await lost.ended).toEqual({ code: 1, signal: null })
  expect(lost.lines().join('\n')).toMatch(/The kubeconfig .* does not exist/)
})

/** Returns a kubeconfig as kubectl writes it, with the token of the service account. */
function kubeConfigOf(
  { url, ca }: ApiServer,
  { namespace, token }: Pick<TestNamespace, 'namespace' | 'token'>,
): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-kubeconfig-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'config')
  writeFileSync(
    path,
    `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: ${Buffer.from(ca).toString('base64')}
    server: ${url}
  name: test
contexts:
- context:
    cluster: test
    namespace: ${namespace}
    user: my-app
  name: test
current-context: test
kind: Config
preferences: {}
users:
- name: my-app
  user:
    token: ${token}
`,
  )
  return path
}
