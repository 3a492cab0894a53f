import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { dns, makeAuthority, serverAuth } from '../../packages/service/test/auth/certificate-authority.ts'
import { collectionOf, inNamespace, type Manifest } from '../kubernetes/manifests.ts'
import { newTestNamespace } from '../kubernetes/test-namespace.ts'
import { etcd } from '../servers/etcd.ts'
import { freePort } from '../servers/free-port.ts'
import { requestJson } from '../servers/https-json.ts'
import { describeWith, describeWithCluster } from '../servers/suite.ts'
import { readServiceManifest, statefulSet } from './service-manifests.ts'
import { ServiceRun } from './service-run.ts'

const { spec: pod, metadata } = statefulSet.spec.template
const [container] = pod.containers

describeWithCluster('the manifests of the service, on a real API server', (cluster) => {
  test('the API server accepts every field of the manifests of the service', async () => {
    const account = readServiceManifest('serviceaccount.yaml')
    const { create, remove } = await newTestNamespace(cluster(), [], account)
    onTestFinished(remove)
    const { resources } = readServiceManifest('kustomization.yaml') as Manifest & { resources: string[] }
    for (const file of resources.filter((name) => name !== 'serviceaccount.yaml'))
      await create(readServiceManifest(file))
    const data = { 'tls.crt': '', 'tls.key': '', 'ca.crt': '' }
    await create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'tenure-tls' }, data })
    const wrong = { ...statefulSet, metadata: { name: 'wrong' }, spec: { ...statefulSet.spec, replica: 2 } }
    await expect(create(wrong)).rejects.toThrow(/unknown field \\"spec.replica\\"/)
  })

  test('the pods of the service pass the strictest pod security standard', async () => {
    const { admin, namespace } = cluster()
    const strict = `${namespace}-strict-service`
    const enforce = { 'pod-security.kubernetes.io/enforce': 'restricted' }
    await admin.request('POST', '/api/v1/namespaces', { metadata: { name: strict, labels: enforce } })
    const account = inNamespace(readServiceManifest('serviceaccount.yaml'), strict)
    await admin.request('POST', collectionOf(account, strict), account)
    const one = { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: 'tenure-0' }, spec: pod }
    const path = `${collectionOf(one, strict)}?fieldValidation=Strict`
    const { status, body } = await admin.request('POST', path, inNamespace(one, strict))
    expect(status, JSON.stringify(body)).toBe(201)
  })
})

function issuerKeys(): string {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  return JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] })
}

describeWith(etcd, 'the command line of the manifests', (server) => {
  test('the command line of the manifests starts a replica that becomes ready, with only other ports and paths', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tenure-pod-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const authority = makeAuthority()
    const { cert, key } = authority.issue({ usages: [serverAuth], names: [dns('localhost')] })
    const files = { 'tls.crt': cert, 'tls.key': key, 'ca.crt': authority.cert, 'keys.json': issuerKeys() }
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 })
    const ports = { '7070': await freePort(), '7071': await freePort() }
    const values: Record<string, string> = { POD_NAME: 'tenure-0', POD_NAMESPACE: 'elections' }
    const args = container.args.map((arg) =>
      arg
        .replaceAll(/\$\((\w+)\)/g, (_, name: string) => values[name] ?? '')
        .replace(/:(707[01])$/, (_, port: '7070' | '7071') => `:${ports[port]}`)
        .replace(/\/etc\/tenure\/\w+/, folder),
    )
    const env = Object.fromEntries(
      container.env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])),
    )
    const replica = new ServiceRun(args, {
      ...env,
      ...values,
      TENURE_STORE: `etcd://${new URL(server().url).host}/tenure`,
      TENURE_JWT_ISSUER: 'https://issuer.example',
      TENURE_JWT_AUDIENCE: 'tenure',
    })
    onTestFinished(() => replica.end('SIGTERM'))
    const url = `https://localhost:${ports['7070']}`
    const ready = async () => {
      const { status } = await requestJson({ url, ca: authority.cert, method: 'GET', path: '/readyz' })
      return status === 200
    }
    await vi
      .waitUntil(() => ready().catch(() => false), { timeout: 20_000, interval: 100 })
      .catch(() => {
        throw new Error(`The replica did not become ready: ${replica.log}`)
      })
    const [elected] = replica.lines().filter(({ msg }) => msg === 'this replica is active')
    expect(elected).toMatchObject({ term: 1 })
  })
})
