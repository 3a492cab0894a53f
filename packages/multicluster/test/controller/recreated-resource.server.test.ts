import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { installCrd } from '../../../../test/servers/multicluster-crd.ts'
import { describeWithCluster } from '../../../../test/servers/suite.ts'
import { systemClock } from '../../../tenure/src/common/clock.ts'
import { kubernetesResources } from '../../../tenure/src/multicluster/kubernetes-resources.ts'
import type { Resources } from '../../../tenure/src/multicluster/resources.ts'
import { memoryStore } from '../../../tenure/src/stores/memory/index.ts'
import { clientFor } from '../../../tenure/test/clients/kubernetes/tls-server.ts'
import { Relay } from '../../src/relay/relay.ts'
import { acquire, call } from '../one-cluster.ts'

const soon = { timeout: 20_000, interval: 10 }

describeWithCluster('a MultiClusterLease on an API server', (cluster) => {
  beforeAll(() => installCrd(cluster()))

  test('a MultiClusterLease is served after it was recreated while a controller was reading it', async () => {
    const { url, adminToken, ca, namespace, admin } = cluster()
    const credentials = () => ({ authorization: `Bearer ${adminToken}`, tls: { ca } })
    const resources = kubernetesResources(clientFor({ server: url, credentials }), systemClock)
    const key = { namespace, name: `recreated-${crypto.randomUUID()}` }
    let conflicts = 1
    let openGate = (): void => undefined
    const gate = new Promise<void>((resolve) => (openGate = resolve))
    let isRead = false
    let endWatch = (): void => undefined
    const shown: string[] = []
    const through: Resources = {
      get: async (...args) => {
        const found = await resources.get(...args)
        isRead = true
        await gate
        return found
      },
      create: (...args) => resources.create(...args),
      patchSpec: (...args) => resources.patchSpec(...args),
      patchStatus: async (...args) => (conflicts-- > 0 ? undefined : resources.patchStatus(...args)),
      async *watch(of, { signal }) {
        const end = new AbortController()
        endWatch = () => end.abort()
        for await (const change of resources.watch(of, { signal: AbortSignal.any([signal, end.signal]) })) {
          yield change
          const all = change.type === 'all' ? change.resources : [change.resource]
          shown.push(...all.map(({ uid }) => uid))
        }
      },
    }
    const relay = new Relay({
      resources: through,
      store: memoryStore(),
      cluster: 'east',
      clock: systemClock,
      namespace,
      isFirst: () => true,
    })
    onTestFinished(() => relay.stop())
    relay.start()
    await resources.create(key, { requests: { a: acquire('first') } }, undefined, call)
    await vi.waitUntil(() => isRead, soon)
    endWatch()
    await admin.request('DELETE', `/apis/tenure.dev/v1alpha1/namespaces/${namespace}/multiclusterleases/${key.name}`)
    const second = { ...acquire('second', { afterTerm: 1 }), timeoutMs: 30_000 }
    const again = await resources.create(key, { requests: { a: second } }, undefined, call)
    await vi.waitUntil(() => shown.includes(again?.uid ?? ''), soon)
    openGate()
    const answered = async () => (await resources.get(key, call))?.status.answers['a']?.id
    await expect.poll(answered, soon).toBe('second')
  })
})
