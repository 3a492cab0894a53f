import { truncateSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeWithCluster } from '../../../../../../test/servers/suite.ts'
import type { KubernetesClient } from '../../../../src/kubernetes/client/client.ts'
import { serviceAccount } from '../../../../src/kubernetes/credentials/service-account.ts'
import { clientFor } from '../../../kubernetes/client/tls-server.ts'
import { Mount } from '../../../kubernetes/credentials/account-mount.ts'

const { signal } = new AbortController()

describeWithCluster('a service account', (cluster) => {
  /** Whom the API server takes the client for. */
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

  test('is known by the token that lies there when a call is made', async () => {
    const { url, ca, tokenOf } = cluster()
    const mount = new Mount({ token: tokenOf('restricted'), 'ca.crt': ca })
    const client = clientFor(serviceAccount(url, mount.folder))
    expect(await userOf(client)).toBe('restricted')
    // Tokens that the API server has signed, as those in a pod are; with the line break that an editor leaves.
    for (const name of ['robot', 'other-robot']) {
      mount.replace({ token: `${await tokenFor(name)}\n`, 'ca.crt': ca })
      expect(await userOf(client)).toBe(`system:serviceaccount:${cluster().namespace}:${name}`)
    }
    mount.replace({ token: 'no such token', 'ca.crt': ca })
    expect(await userOf(client)).toBe(401)
    mount.replace({ token: tokenOf('stranger'), 'ca.crt': ca })
    expect(await userOf(client)).toBe('stranger')
  })

  test('keeps its last token while the file is away or empty', async () => {
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
