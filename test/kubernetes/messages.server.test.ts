import { expect, test } from 'vitest'
import { KubernetesClient } from '../../packages/tenure/src/clients/kubernetes/client.ts'
import { kubernetesStore } from '../../packages/tenure/src/stores/kubernetes/index.ts'
import { describeWithCluster } from '../servers/suite.ts'

describeWithCluster('messages from the API server', (cluster) => {
  /** Tries to lead, and returns the result. */
  const attempt = async (change: { server?: string; token?: string; ca?: string; namespace?: string }) => {
    const { url, adminToken, ca } = cluster()
    const { server = url, token = adminToken, namespace = cluster().namespace } = change
    const credentials = () => ({ authorization: `Bearer ${token}`, tls: { ca: change.ca ?? ca } })
    const store = kubernetesStore({ client: new KubernetesClient({ server, credentials }), namespace })
    const claim = {
      election: 'my-app',
      holder: 'a',
      attempt: 'a.1',
      leaseDurationMs: 1_000,
      afterTerm: 0,
      metadata: {},
    }
    return store.acquire(claim, { signal: AbortSignal.timeout(5_000) })
  }

  test('messages from the API server are quoted correctly on the troubleshooting page', async () => {
    await expect(attempt({ namespace: 'nowhere' })).rejects.toThrow(
      'Cannot create Lease "nowhere/my-app": the API server answered 404, namespaces "nowhere" not found',
    )
    await expect(attempt({ token: 'old' })).rejects.toThrow('the API server could not authenticate the caller (401).')
    await expect(attempt({ ca: '' })).rejects.toThrow('cannot be reached: self-signed certificate')
    await expect(attempt({ server: 'https://127.0.0.1:1' })).rejects.toThrow('cannot be reached: connect ECONNREFUSED')
  })
})
