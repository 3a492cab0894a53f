import { unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { files } from '../../../../../../test/servers/kube-apiserver.ts'
import { describeWithCluster } from '../../../../../../test/servers/suite.ts'
import type { KubernetesClient } from '../../../../src/clients/kubernetes/client.ts'
import { fromKubeConfig } from '../../../../src/clients/kubernetes/credentials/kube-config.ts'
import { base64, folderOfFiles, kubeConfig } from './kube-config-file.ts'

const { write } = folderOfFiles()

describeWithCluster('fromKubeConfig on a real API server', (cluster) => {
  const path = () => `/apis/coordination.k8s.io/v1/namespaces/${cluster().namespace}/leases/seen`
  const clients: KubernetesClient[] = []
  afterEach(() => {
    for (const client of clients.splice(0)) client.close()
  })

  beforeAll(async () => {
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'seen' } }
    const { status } = await cluster().admin.request('POST', path().replace('/seen', ''), lease)
    expect(status).toBe(201)
  })

  const open = (clusterPart: object, user: object) => {
    const client = fromKubeConfig(write(kubeConfig({ server: cluster().url, ...clusterPart }, user)))
    clients.push(client)
    return client
  }
  const get = async (client: KubernetesClient) =>
    (await client.request({ method: 'GET', path: path(), signal: new AbortController().signal })).status
  const trusted = () => ({ 'certificate-authority-data': base64(cluster().ca) })
  const admin = () => ({ token: cluster().adminToken })

  test('a kubeconfig with a token and inline certificate authority is accepted', async () => {
    const client = open(trusted(), admin())
    const answer = await client.request({ method: 'GET', path: path(), signal: new AbortController().signal })
    expect(answer).toMatchObject({ status: 200, body: { kind: 'Lease', metadata: { name: 'seen' } } })
  })

  test('a certificate authority file is resolved relative to the kubeconfig', async () => {
    write(cluster().ca, 'ca.crt')
    expect(await get(open({ 'certificate-authority': 'ca.crt' }, admin()))).toBe(200)
  })

  test('base64 data with line breaks is accepted', async () => {
    const wrapped = base64(cluster().ca).replaceAll(/.{64}/g, '$&\n')
    const text = kubeConfig({ server: cluster().url, 'certificate-authority-data': wrapped }, admin())
    expect(text).toMatch(/certificate-authority-data: [|>]/)
    expect(await get(fromKubeConfig(write(text)))).toBe(200)
  })

  test('a wrong or missing certificate authority is not trusted', async () => {
    const { cert } = cluster().clientCertificate('somebody')
    const other = { 'certificate-authority': join(cluster().directory, files.clientCa) }
    for (const trust of [other, { 'certificate-authority-data': base64(cert) }, {}]) {
      await expect(get(open(trust, admin()))).rejects.toMatchObject({
        code: 'BACKEND_UNAVAILABLE',
        message: expect.stringMatching(/certificate/),
      })
    }
  })

  test('insecure-skip-tls-verify skips verification', async () => {
    expect(await get(open({ 'insecure-skip-tls-verify': true }, admin()))).toBe(200)
  })

  test('tls-server-name must match the certificate', async () => {
    expect(await get(open({ ...trusted(), 'tls-server-name': 'kubernetes.default.svc' }, admin()))).toBe(200)
    await expect(get(open({ ...trusted(), 'tls-server-name': 'other.example' }, admin()))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringContaining('other.example'),
    })
  })

  test('a wrong token is rejected', async () => {
    expect(await get(open(trusted(), { token: 'wrong' }))).toBe(401)
  })

  test('a token file is read again for each call, and its last content is used while it is missing or empty', async () => {
    const file = write(`${cluster().adminToken}\n`, 'token')
    const client = open(trusted(), { tokenFile: 'token' })
    expect(await get(client)).toBe(200)
    writeFileSync(file, '')
    expect(await get(client)).toBe(200)
    unlinkSync(file)
    expect(await get(client)).toBe(200)
    writeFileSync(file, cluster().tokenOf('stranger'))
    expect(await get(client)).toBe(403)
    writeFileSync(file, cluster().adminToken)
    expect(await get(client)).toBe(200)
  })

  test('a token file takes precedence over a token, which is used until the file exists', async () => {
    const client = open(trusted(), { token: cluster().adminToken, tokenFile: 'later' })
    expect(await get(client)).toBe(200)
    write(cluster().tokenOf('stranger'), 'later')
    expect(await get(client)).toBe(403)
  })

  test('an inline client certificate is accepted', async () => {
    const { cert, key } = cluster().clientCertificate('somebody', ['system:masters'])
    const user = { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) }
    expect(await get(open(trusted(), user))).toBe(200)
  })

  test('client certificate files are read again, and replaced only as a pair', async () => {
    const before = cluster().clientCertificate('somebody', ['system:masters'])
    const after = cluster().clientCertificate('somebody else')
    const cert = write(before.cert, 'client.crt')
    const key = write(before.key, 'client.key')
    const client = open(trusted(), { 'client-certificate': 'client.crt', 'client-key': key })
    expect(await get(client)).toBe(200)
    writeFileSync(cert, after.cert)
    expect(await get(client)).toBe(200)
    writeFileSync(key, after.key)
    expect(await get(client)).toBe(403)
  })

  test('fromKubeConfig refuses a certificate together with the key of another certificate', () => {
    const { cert } = cluster().clientCertificate('somebody')
    const { key } = cluster().clientCertificate('somebody else')
    const user = { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) }
    expect(() => open(trusted(), user)).toThrow(
      'has a client-certificate and a client-key that cannot be used together',
    )
  })
})
