import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { linesOf, run, tenure } from '../../packages/cli/test/tenure.ts'
import { Elector } from '../../packages/tenure/src/elector.ts'
import { KubernetesClient } from '../../packages/tenure/src/kubernetes/client.ts'
import { kubernetesStore } from '../../packages/tenure/src/stores/kubernetes.ts'
import type { Cluster } from '../servers/cluster.ts'
import { describeWithCluster } from '../servers/suite.ts'
import { newTenant } from './tenant.ts'

/** A kubeconfig with a token. */
function kubeConfigOf({ url, ca }: Cluster, token: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-kubeconfig-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const cluster = { server: url, 'certificate-authority-data': Buffer.from(ca).toString('base64') }
  const config = {
    'current-context': 'test',
    clusters: [{ name: 'test', cluster }],
    users: [{ name: 'test', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
  }
  const path = join(folder, 'config')
  writeFileSync(path, JSON.stringify(config))
  return path
}

describeWithCluster('the command line on Kubernetes', (cluster) => {
  const admin = () => ({ KUBECONFIG: kubeConfigOf(cluster(), cluster().adminToken), KUBERNETES_SERVICE_HOST: '' })

  test('shows who leads, and each change', async () => {
    const { url, adminToken, ca } = cluster()
    const credentials = () => ({ authorization: `Bearer ${adminToken}`, tls: { ca } })
    const store = kubernetesStore({ client: new KubernetesClient({ server: url, credentials }), namespace: 'default' })
    const options = { env: admin() }
    const watching = tenure(['watch', 'jobs', '--store', 'kubernetes://default', '--json'], options)
    const types = () => linesOf(watching.output.out).map(({ type }) => type)
    await vi.waitUntil(() => types().length === 1, { timeout: 20_000 })
    const elector = new Elector({ store, election: 'jobs', identity: 'pod-a', leaseDurationMs: 60_000 })
    elector.start()
    await elector.waitForLeadership()
    await vi.waitUntil(() => types().length === 2, { timeout: 20_000 })
    const { code, out } = await run(['leader', 'jobs', '--store', 'kubernetes://default', '--json'], options)
    expect(code).toBe(0)
    expect(linesOf(out)).toMatchObject([{ election: 'jobs', leader: { holder: 'pod-a', term: 1 } }])
    await elector.stop()
    await vi.waitUntil(() => types().length === 3, { timeout: 20_000 })
    expect(types()).toEqual(['state', 'elected', 'released'])
  })

  test('the doctor finds it safe', async () => {
    const args = ['doctor', '--store', 'kubernetes://default', '--ttl', '10m', '--calls', '5']
    const { code, out, error } = await run(args, { env: admin() })
    expect({ code, error }, out).toEqual({ code: 0, error: '' })
    expect(out).toMatch(/^store +kubernetes:\/\/default: candidates judge that a lease ran out; terms last$/m)
    expect(out).toMatch(/^watch +tells of a change after /m)
  })

  test('the doctor names the right that is missing, and who has it not', async () => {
    const tenant = await newTenant(cluster())
    onTestFinished(tenant.remove)
    const env = { KUBECONFIG: kubeConfigOf(cluster(), tenant.token), KUBERNETES_SERVICE_HOST: '' }
    const { code, error } = await run(['doctor', '--store', `kubernetes://${tenant.namespace}`], { env })
    expect(code).toBe(69)
    expect(error).toMatch(
      /^tenure: It cannot read\. Cannot get Lease .*forbids it \(403\).*system:serviceaccount:.*Bind the Role/,
    )
    expect(error).not.toContain(tenant.token)
  })
})
