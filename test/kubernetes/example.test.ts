import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Cluster } from '../servers/cluster.ts'
import { describeWithCluster } from '../servers/suite.ts'
import { readManifest } from './manifests.ts'
import { mount } from './mount.ts'
import { newTenant, type Tenant } from './tenant.ts'

const program = join(import.meta.dirname, '../../examples/kubernetes-deployment/main.mjs')
const rights = ['role.yaml', 'rolebinding.yaml', 'components/events/role.yaml', 'components/events/rolebinding.yaml']

describeWithCluster('the program of the Deployment', (cluster) => {
  /** A namespace with these rights, and replicas that run there. */
  const prepare = async (...files: string[]) => {
    const tenant = await newTenant(cluster(), files)
    onTestFinished(tenant.remove)
    if (files.length > 0) await tenant.hasRight('watch', 'leases')
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

  test('leads in one of two replicas, and in the other as soon as that one is asked to end', async () => {
    const { replica } = await prepare(...rights)
    const first = await replica('pod-a')
    await first.says('pod-a works in term 1, round 1')
    const second = await replica('pod-b')
    await second.says('pod-b sees that pod-a leads')
    expect(await first.asked('/healthz')).toEqual([200, expect.stringContaining('This replica leads')])
    expect(await second.asked('/healthz')).toEqual([200, 'This replica does not lead.\n'])
    for (const one of [first, second]) expect(await one.asked('/readyz')).toEqual([200, 'It knows who leads.\n'])

    first.kill('SIGTERM')
    expect(await first.ended).toEqual({ code: 0, signal: null })
    const endedMs = performance.now()
    await second.says('pod-b started leading in term 2')
    // A second replica without its watch would have asked a second later at the earliest.
    expect(performance.now() - endedMs).toBeLessThan(900)
    expect(first.lines().slice(-4)).toEqual([
      'pod-a is asked to end',
      'pod-a finished its work',
      'pod-a stopped leading',
      'pod-a has ended',
    ])
    second.kill('SIGINT')
    expect(await second.ended).toEqual({ code: 0, signal: null })
  })

  test('runs as a pod does, with the files of its service account, and writes Events', async () => {
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

  test('ends at once when it is asked twice, and keeps its Lease then', async () => {
    const { replica, leaseOf } = await prepare(...rights)
    const stubborn = await replica('pod-a', { WIND_DOWN_MS: '60000' })
    await stubborn.says('pod-a works in term 1, round 1')
    stubborn.kill('SIGTERM')
    await stubborn.says('pod-a is asked to end')
    expect(await stubborn.asked('/readyz')).toEqual([503, 'It is ending.\n'])
    expect((await stubborn.asked('/healthz'))[0]).toBe(200)
    stubborn.kill('SIGTERM')
    expect(await stubborn.ended).toEqual({ code: 1, signal: null })
    expect(await leaseOf()).toMatchObject({ holderIdentity: 'pod-a' })
  })

  test('never gets ready without rights, says once which are missing, and leads when it has them', async () => {
    const { tenant, replica } = await prepare()
    const pod = await replica('pod-a')
    await pod.says(/^pod-a error: Cannot get Lease "tenant-\d+\/my-app": the API server forbids it/)
    expect(await pod.asked('/readyz')).toEqual([503, 'It does not know yet who leads.\n'])
    expect((await pod.asked('/healthz'))[0]).toBe(200)
    for (const file of ['role.yaml', 'rolebinding.yaml']) await tenant.create(readManifest(file))
    await pod.says('pod-a started leading in term 1')
    expect((await pod.asked('/readyz'))[0]).toBe(200)
    expect(pod.lines().filter((line) => line.includes('error:'))).toHaveLength(1)
    pod.kill('SIGTERM')
    expect(await pod.ended).toEqual({ code: 0, signal: null })
  })
})

test('kubernetes-deployment: without a cluster it says what is missing, and ends', async () => {
  const lost = await start({ POD_NAME: 'pod-a', KUBECONFIG: join(tmpdir(), 'no-such-kubeconfig') })
  expect(await lost.ended).toEqual({ code: 1, signal: null })
  expect(lost.lines().join('\n')).toContain('There is no kubeconfig')
})

/** A replica, as a process. */
async function start(env: Record<string, string>) {
  const port = await freePort()
  const { KUBERNETES_SERVICE_HOST: _, ...inherited } = process.env
  const child = spawn(process.execPath, [program], { env: { ...inherited, PORT: String(port), ...env } })
  onTestFinished(() => void child.kill('SIGKILL'))
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  }
  const lines = () => text.split('\n').filter((line) => line !== '')
  const isSaid = (line: string | RegExp) =>
    lines().some((said) => (typeof line === 'string' ? said === line : line.test(said)))
  return {
    lines,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    ended: once(child, 'close').then(([code, signal]) => ({ code, signal })),
    says: (line: string | RegExp) =>
      vi.waitFor(() => expect(isSaid(line), `${line} is missing in:\n${text}`).toBe(true), {
        timeout: 15_000,
        interval: 10,
      }),
    async asked(path: string): Promise<[status: number, text: string]> {
      const response = await fetch(`http://127.0.0.1:${port}${path}`)
      return [response.status, await response.text()]
    },
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** A kubeconfig as kubectl writes it, with the token of the service account. */
function kubeConfigOf({ url, ca }: Cluster, { namespace, token }: Tenant): string {
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
