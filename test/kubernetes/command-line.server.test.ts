import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { linesOf, run, tenure } from '../../packages/cli/test/tenure.ts'
import { Elector } from '../../packages/tenure/src/engine/elector.ts'
import { KubernetesClient } from '../../packages/tenure/src/clients/kubernetes/client.ts'
import { kubernetesStore } from '../../packages/tenure/src/stores/kubernetes/index.ts'
import type { ApiServer } from '../servers/cluster.ts'
import { describeWithCluster } from '../servers/suite.ts'
import { candidate } from './candidate.ts'
import { readManifest } from './manifests.ts'
import { newTestNamespace } from './test-namespace.ts'

/** Returns a kubeconfig with a token. */
function kubeConfigOf({ url, ca }: ApiServer, token: string, namespace?: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-kubeconfig-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const cluster = { server: url, 'certificate-authority-data': Buffer.from(ca).toString('base64') }
  const config = {
    'current-context': 'test',
    clusters: [{ name: 'test', cluster }],
    users: [{ name: 'test', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test', namespace } }],
  }
  const path = join(folder, 'config')
  writeFileSync(path, JSON.stringify(config))
  return path
}

const leaseOf = (name: string, spec: object) => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name },
  spec,
})

const storeOf = ({ namespace }: ApiServer) => `kubernetes://${namespace}`

describeWithCluster('the command line on Kubernetes', (cluster) => {
  const admin = () => ({ KUBECONFIG: kubeConfigOf(cluster(), cluster().adminToken), KUBERNETES_SERVICE_HOST: '' })

  test('tenure leader and tenure watch show the leader and each change of a Lease', async () => {
    const { url, adminToken, ca } = cluster()
    const credentials = () => ({ authorization: `Bearer ${adminToken}`, tls: { ca } })
    const store = kubernetesStore({
      client: new KubernetesClient({ server: url, credentials }),
      namespace: cluster().namespace,
    })
    const options = { env: admin() }
    const watching = tenure(['watch', 'jobs', '--store', storeOf(cluster()), '--json'], options)
    const types = () => linesOf(watching.output.out).map(({ type }) => type)
    await vi.waitUntil(() => types().length === 1, { timeout: 20_000 })
    const elector = new Elector({ store, election: 'jobs', identity: 'pod-a', leaseDurationMs: 60_000 })
    elector.start()
    await elector.waitForLeadership()
    await vi.waitUntil(() => types().length === 2, { timeout: 20_000 })
    const { code, out } = await run(['leader', 'jobs', '--store', storeOf(cluster()), '--json'], options)
    expect(code).toBe(0)
    expect(linesOf(out)).toMatchObject([{ election: 'jobs', leader: { holder: 'pod-a', term: 1 } }])
    await elector.stop()
    await vi.waitUntil(() => types().length === 3, { timeout: 20_000 })
    expect(types()).toEqual(['state', 'elected', 'released'])
  })

  test('tenure groups lists the elections of a namespace and prints nothing else', async () => {
    const tenant = await newTestNamespace(cluster())
    onTestFinished(tenant.remove)
    await tenant.create(leaseOf('my-app', { holderIdentity: 'pod-a', leaseDurationSeconds: 15 }))
    const { code, out, error } = await run(['groups', '--store', `kubernetes://${tenant.namespace}`], { env: admin() })
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(out).toContain('my-app')
  })

  test('the command line reports that a namespace does not exist, not only that nobody leads there', async () => {
    const store = 'kubernetes://no-such-namespace'
    const note = 'tenure: The namespace "no-such-namespace" does not exist in this cluster.\n'
    const env = admin()
    const [leader, groups] = await Promise.all([
      run(['leader', 'jobs', '--store', store], { env }),
      run(['groups', '--store', store], { env }),
    ])
    expect(leader).toEqual({ code: 1, out: 'Nobody leads "jobs".\n', error: note })
    expect(groups).toEqual({ code: 0, out: 'There are no elections.\n', error: note })
    const tenant = await newTestNamespace(cluster())
    onTestFinished(tenant.remove)
    const KUBECONFIG = kubeConfigOf(cluster(), tenant.token)
    // A user without the right to read namespaces learns nothing about them.
    await tenant.create(readManifest('role.yaml'))
    await tenant.create(readManifest('rolebinding.yaml'))
    await tenant.hasRight('get', 'leases')
    const args = ['leader', 'my-app', '--store', `kubernetes://${tenant.namespace}`]
    const asked = await run(args, { env: { KUBECONFIG, KUBERNETES_SERVICE_HOST: '' } })
    expect(asked).toEqual({ code: 1, out: 'Nobody leads "my-app".\n', error: '' })
  })

  test('tenure watch does not report a former leader as the leader', async () => {
    const tenant = await newTestNamespace(cluster())
    onTestFinished(tenant.remove)
    const at = (agoMs: number) => new Date(Date.now() - agoMs).toISOString().replace('Z', '000Z')
    const held = { leaseDurationSeconds: 300, leaseTransitions: 7 }
    const gone = { acquireTime: at(3_600_000), renewTime: at(400_000) }
    const alive = { acquireTime: at(3_600_000), renewTime: at(0) }
    await tenant.create(leaseOf('gone', { ...held, ...gone, holderIdentity: 'pod-a' }))
    await tenant.create(leaseOf('alive', { ...held, ...alive, holderIdentity: 'pod-b' }))
    const watching = (election: string) =>
      run(['watch', election, '--store', `kubernetes://${tenant.namespace}`, '--changes', '1'], { env: admin() })
    await tenant.create(leaseOf('never', { ...held, holderIdentity: 'pod-c' }))
    const [first, second, third] = await Promise.all([watching('gone'), watching('alive'), watching('never')])
    expect(first.out).toMatch(
      /pod-a holds gone in term 7, but last renewed it \d\.\dm ago, by its own clock; it is uncertain for another 5\.0m whether it still leads$/m,
    )
    expect(third.out).toMatch(
      /pod-c holds never in term 7, but never renewed it; it is uncertain for another 5\.0m whether it still leads$/m,
    )
    expect(second.out).toMatch(/pod-b leads alive in term 7, with a lease of 5\.0m$/m)
  })

  test('the command line reports that it uses the namespace default when the context has another one', async () => {
    const KUBECONFIG = kubeConfigOf(cluster(), cluster().adminToken, cluster().namespace)
    const env = { KUBECONFIG, KUBERNETES_SERVICE_HOST: '', POD_NAMESPACE: '' }
    const { error } = await run(['leader', 'nobody-has-this-name', '--store', 'kubernetes://'], { env })
    expect(error).toContain('Leases are kept in the namespace "default", because POD_NAMESPACE is not set.')
    expect(error).toContain(`(in a URL: kubernetes://${cluster().namespace})`)
    expect((await run(['leader', 'jobs', '--store', storeOf(cluster())], { env })).error).not.toContain('default')
  })

  test('tenure doctor reports a Kubernetes store as safe', async () => {
    const args = ['doctor', '--store', storeOf(cluster()), '--ttl', '10m', '--calls', '5']
    const { code, out, error } = await run(args, { env: admin() })
    expect({ code, error }, out).toEqual({ code: 0, error: '' })
    expect(out).toContain(`${storeOf(cluster())}: candidates judge lease expiry; terms are durable\n`)
    expect(out).toMatch(/^rights +get yes, create yes, update yes, watch yes$/m)
    expect(out).toMatch(/^watch +shows a change after /m)
    expect(out).toMatch(/^calls +read, acquire, renew and release are allowed$/m)
    expect(out).toMatch(
      /^timings +lease 10m: lead, Elector, tenure run: renewed every 3\.3m, call timeout 100\.0s, leadership ends after 6\.7m without a renewal$/m,
    )
    expect(out).toMatch(
      /^ +LeaderElector: renewed every 80\.0s, call timeout 3\.3m, leadership ends after 8\.0m without a renewal$/m,
    )
  })

  test('tenure doctor prints each right, which identity lacks it, and what to apply', async () => {
    const tenant = await newTestNamespace(cluster())
    onTestFinished(tenant.remove)
    const { namespace, token } = tenant
    const env = { KUBECONFIG: kubeConfigOf(cluster(), token), KUBERNETES_SERVICE_HOST: '' }
    const { code, out, error } = await run(['doctor', '--store', `kubernetes://${namespace}`], { env })
    expect(code).toBe(69)
    expect(out).toMatch(/^rights +get no, create no, update no, watch no$/m)
    expect(error).toContain(
      `tenure: "system:serviceaccount:${namespace}:my-app" may not get, create, update or watch Lease "${namespace}/tenure-doctor".`,
    )
    expect(error).toMatch(/ --serviceaccount=tenant-[\w-]+:my-app\n.*name one of them with --election\.$/m)
    expect(error).not.toContain(token)
  })

  test('tenure doctor accepts rights that are limited to one existing Lease', async () => {
    const tenant = await newTestNamespace(cluster(), ['rolebinding.yaml'])
    onTestFinished(tenant.remove)
    const { namespace, token } = tenant
    const limits = { resourceNames: ['my-app'], verbs: ['get', 'update', 'watch'] }
    const rule = { apiGroups: ['coordination.k8s.io'], resources: ['leases'], ...limits }
    await tenant.create({ ...readManifest('role.yaml'), rules: [rule] })
    await tenant.create({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'my-app' } })
    await tenant.hasRight('watch', 'leases', 'my-app')
    const env = { KUBECONFIG: kubeConfigOf(cluster(), token), KUBERNETES_SERVICE_HOST: '' }
    const args = [
      'doctor',
      '--store',
      `kubernetes://${namespace}`,
      '--election',
      'my-app',
      '--ttl',
      '10m',
      '--calls',
      '5',
    ]
    const [forPeople, json] = [await run(args, { env }), await run([...args, '--json'], { env })]
    expect({ code: forPeople.code, error: forPeople.error }).toEqual({ code: 0, error: '' })
    expect(forPeople.out).toMatch(
      /^rights +get yes, create no, update yes, watch yes; create is not needed, because the Lease exists$/m,
    )
    expect(linesOf(json.out)).toMatchObject([{ rights: { get: true, create: false, update: true, watch: true } }])
    // While the program leads, the doctor has no other Lease to test its rights on, so it only reads and watches.
    const lone = candidate(cluster(), tenant, 'pod-a')
    await lone.started
    const [led, ledJson] = [await run(args, { env }), await run([...args, '--json'], { env })]
    expect({ code: led.code, error: led.error }, led.out).toEqual({ code: 0, error: '' })
    expect(led.out).toMatch(/^led +by pod-a in term \d, so the doctor only reads and watches$/m)
    expect(led.out).toMatch(/^latency +read median .*\(5 calls\)$/m)
    expect(led.out).toMatch(/^watch +shows changes$/m)
    expect(led.out).toMatch(/^Rights, reads and the watch are in order\. .*while nobody leads my-app\.$/m)
    expect(linesOf(ledJson.out)).toMatchObject([{ ledBy: 'pod-a', verdict: 'readable', reasons: [] }])
    expect(lone.elector.isLeader()).toBe(true)
    expect(lone.errors).toEqual([])
  })

  test('tenure doctor warns that the watch does not work or the leader is gone when the watch shows no renewal', async () => {
    const tenant = await newTestNamespace(cluster())
    onTestFinished(tenant.remove)
    await tenant.create(leaseOf('gone', { holderIdentity: 'pod-a', leaseDurationSeconds: 1, leaseTransitions: 7 }))
    const args = ['doctor', '--store', `kubernetes://${tenant.namespace}`, '--election', 'gone', '--calls', '5']
    const { code, out } = await run(args, { env: admin() })
    expect(code, out).toBe(0)
    expect(out).toMatch(/^watch +does not work: it showed no renewal within 1 s, if there was one$/m)
    expect(out).toMatch(
      /^Rights are in order, with the warnings below\. .*\nThe watch does not work, or the leader is gone: /m,
    )
  })

  test('tenure run reports a missing right while its program runs, long before a renewal fails', async () => {
    const tenant = await newTestNamespace(cluster(), ['rolebinding.yaml'])
    onTestFinished(tenant.remove)
    const { namespace, token } = tenant
    const rule = { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create'] }
    await tenant.create({ ...readManifest('role.yaml'), rules: [rule] })
    await tenant.hasRight('create', 'leases')
    const env = { KUBECONFIG: kubeConfigOf(cluster(), token), KUBERNETES_SERVICE_HOST: '' }
    const args = ['run', 'jobs', '--store', `kubernetes://${namespace}`, '--ttl', '10m', '--', 'sleep', '60']
    const { child, output } = tenure(args, { env })
    await vi.waitUntil(() => output.error.includes('in term 1'), { timeout: 20_000 })
    await vi.waitUntil(() => output.error.includes(`may not update or watch Lease "${namespace}/jobs"`), {
      timeout: 20_000,
    })
    expect(output.error).not.toMatch(/403|answers again/)
    expect(child.exitCode).toBeNull()
  })

  test('tenure run with a read-only token exits when nobody leads: at once, or after the leader that it waited for is gone (G9)', async () => {
    const tenant = await newTestNamespace(cluster())
    onTestFinished(tenant.remove)
    const version = { apiVersion: 'rbac.authorization.k8s.io/v1' }
    const metadata = { name: 'reader' }
    const rules = [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'list', 'watch'] }]
    await tenant.create({ ...version, kind: 'Role', metadata, rules })
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' }
    const subjects = [{ kind: 'ServiceAccount', name: 'my-app', namespace: tenant.namespace }]
    await tenant.create({ ...version, kind: 'RoleBinding', metadata, roleRef, subjects })
    await tenant.hasRight('watch', 'leases')
    const reader = { KUBECONFIG: kubeConfigOf(cluster(), tenant.token), KUBERNETES_SERVICE_HOST: '' }
    const args = ['run', 'jobs', '--store', `kubernetes://${tenant.namespace}`, '--ttl', '3s', '--store-timeout', '2s']
    const first = await run([...args, '--', 'true'], { env: reader })
    expect(first).toMatchObject({ code: 69, error: expect.stringMatching(/denied the request \(403\)/) as string })
    const leader = tenure([...args, '--identity', 'leader', '--', 'sleep', '60'], { env: admin() })
    await vi.waitUntil(() => leader.output.error.includes('in term 1'), { timeout: 20_000 })
    const standby = tenure([...args, '--', 'true'], { env: reader })
    await vi.waitUntil(() => standby.output.error.includes('leader leads'), { timeout: 20_000 })
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    expect(standby.child.exitCode).toBeNull()
    leader.child.kill('SIGTERM')
    expect(await standby.ended).toBe(69)
    expect(standby.output.error).toMatch(/can be read, but no write has succeeded for 2s\. .*403/)
  })
})
