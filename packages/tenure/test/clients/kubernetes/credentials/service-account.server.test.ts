import { truncateSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeWithCluster } from '../../../../../../test/servers/suite.ts'
import type { KubernetesClient } from '../../../../src/clients/kubernetes/client.ts'
import { serviceAccount } from '../../../../src/clients/kubernetes/credentials/service-account.ts'
import { clientFor } from '../tls-server.ts'
import { Mount } from './account-mount.ts'

const { signal } = new AbortController()

describeWithCluster('serviceAccount on a real API server', (cluster) => {
  /** The user name that the API server sees for the client. */
  const userOf = async (client: KubernetesClient) => {
    const answer = await client.request({
      method: 'POST',
      path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
      signal,
    })
    if (answer.status !== 201) return answer.status
    return (answer.body as { status: { userInfo: { username: string } } }).status.userInfo.username
  }
  const tokenFor = async (name: string) => {
    const accounts = `/api/v1/namespaces/${cluster().namespace}/serviceaccounts`
    await cluster().admin.request('POST', accounts, { metadata: { name } })
    const asked = { spec: { expirationSeconds: 600 } }
    const { body } = await cluster().admin.request<{ status: { token: string } }>(
      'POST',
      `${accounts}/${name}/token`,
      asked,
    )
    return body.status.token
  }

  test('each call uses the token that is mounted at that moment', async () => {
    const { url, ca, tokenOf } = cluster()
    const mount = new Mount({ token: tokenOf('restricted'), 'ca.crt': ca })
    const client = clientFor(serviceAccount(url, mount.folder))
    expect(await userOf(client)).toBe('restricted')
    // Tokens signed by the API server, as in a pod, with the line break that an editor leaves.
    for (const name of ['robot', 'other-robot']) {
      mount.replace({ token: `${await tokenFor(name)}\n`, 'ca.crt': ca })
      expect(await userOf(client)).toBe(`system:serviceaccount:${cluster().namespace}:${name}`)
    }
    mount.replace({ token: 'no such token', 'ca.crt': ca })
    expect(await userOf(client)).toBe(401)
    mount.replace({ token: tokenOf('stranger'), 'ca.crt': ca })
    expect(await userOf(client)).toBe('stranger')
  })

  test('the last token is used while the file is missing or empty', async () => {
    const { url, ca, tokenOf } = cluster()
    const mount = new Mount({ token: tokenOf('restricted'), 'ca.crt': ca })
    const client = clientFor(serviceAccount(url, mount.folder))
    expect(await userOf(client)).toBe('restricted')
    truncateSync(join(mount.folder, 'token'))
    expect(await userOf(client)).toBe('restricted')
    mount.replace({})
    expect(await userOf(client)).toBe('restricted')
    mount.replace({ token: tokenOf('stranger'), 'ca.crt': ca })
    expect(await userOf(client)).toBe('stranger')
  })
})
