import { expect, test } from 'vitest'
import { startCluster } from './cluster.ts'
import { requestJson } from './https-json.ts'
import { describeWithOwnCluster } from './suite.ts'

const leases = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
const lease = (name: string) => ({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name } })

interface Self {
  readonly status: { readonly userInfo: { readonly username: string; readonly groups: readonly string[] } }
}
const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }
const reviews = '/apis/authentication.k8s.io/v1/selfsubjectreviews'

describeWithOwnCluster('a cluster', (cluster) => {
  test('the test cluster lets the admin write, and others only when a role allows it', async () => {
    const { admin, tokenOf } = cluster()
    expect((await admin.request('POST', leases, lease('first'))).status).toBe(201)
    expect((await admin.request('GET', `${leases}/first`, undefined, tokenOf('restricted'))).status).toBe(403)

    const roles = '/apis/rbac.authorization.k8s.io/v1/namespaces/default'
    const rules = [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get'] }]
    expect((await admin.request('POST', `${roles}/roles`, { metadata: { name: 'reader' }, rules })).status).toBe(201)
    const binding = {
      metadata: { name: 'reader' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'restricted' }],
    }
    expect((await admin.request('POST', `${roles}/rolebindings`, binding)).status).toBe(201)
    // The authorizer learns about a new role through a watch.
    const asked = async (user: 'restricted' | 'stranger') =>
      (await admin.request('GET', `${leases}/first`, undefined, tokenOf(user))).status
    await expect.poll(() => asked('restricted'), { timeout: 5_000 }).toBe(200)
    expect(await asked('stranger')).toBe(403)
    expect((await admin.request('GET', `${leases}/first`, undefined, 'no such token')).status).toBe(401)
  })

  test('the test cluster patches and deletes objects', async () => {
    const { admin } = cluster()
    await admin.request('POST', leases, lease('second'))
    const patch = { spec: { holderIdentity: 'somebody' } }
    expect(await admin.request('PATCH', `${leases}/second`, patch)).toMatchObject({ status: 200, body: patch })
    expect((await admin.request('DELETE', `${leases}/second`)).status).toBe(200)
    expect((await admin.request('GET', `${leases}/second`)).status).toBe(404)
  })

  test('the test cluster recognizes a client certificate', async () => {
    const { url, ca, clientCertificate } = cluster()
    const { body } = await requestJson<Self>({
      url,
      ca,
      method: 'POST',
      path: reviews,
      body: review,
      clientCertificate: clientCertificate('somebody', ['some:group']),
    })
    expect(body.status.userInfo.username).toBe('somebody')
    expect(body.status.userInfo.groups).toContain('some:group')
  })

  test('the test cluster issues tokens for service accounts', async () => {
    const { admin } = cluster()
    const accounts = '/api/v1/namespaces/default/serviceaccounts'
    await admin.request('POST', accounts, { metadata: { name: 'robot' } })
    const asked = { spec: { expirationSeconds: 600 } }
    const { body } = await admin.request<{ status: { token: string } }>('POST', `${accounts}/robot/token`, asked)
    const self = await admin.request<Self>('POST', reviews, review, body.status.token)
    expect(self.body.status.userInfo.username).toBe('system:serviceaccount:default:robot')
  })

  test('a client that does not trust the certificate of the test cluster refuses it', async () => {
    const { url, adminToken: token } = cluster()
    await expect(requestJson({ url, ca: '', token, path: '/readyz' })).rejects.toThrow(/certificate/)
  })

  test('the test cluster keeps its objects, port, and certificate across a crash', async () => {
    const { admin, restart } = cluster()
    await admin.request('POST', leases, lease('kept'))
    const { pid } = cluster()
    await restart('SIGKILL', { downForMs: 10 })
    expect(cluster().pid).not.toBe(pid)
    expect((await admin.request('GET', `${leases}/kept`)).status).toBe(200)
  })

  test('the test cluster refuses connections while it is down, and hangs while it is paused', async () => {
    const { admin, url, ca, kill, start, pause, resume } = cluster()
    await kill('SIGTERM')
    await expect(admin.request('GET', '/readyz')).rejects.toThrow(/ECONNREFUSED/)
    await start()
    pause()
    await expect(requestJson({ url, ca, path: '/readyz', timeoutMs: 200 })).rejects.toThrow(/abort/)
    resume()
    expect((await admin.request('GET', '/readyz')).status).toBe(200)
  })

  test('two test clusters can run at the same time', async () => {
    const other = await startCluster()
    try {
      await other.admin.request('POST', leases, lease('elsewhere'))
      expect((await cluster().admin.request('GET', `${leases}/elsewhere`)).status).toBe(404)
    } finally {
      await other.stop()
    }
  })
})
