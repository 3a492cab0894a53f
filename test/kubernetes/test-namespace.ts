import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { ApiServer } from '../servers/cluster.ts'
import { collectionOf, inNamespace, readManifest, type Manifest } from './manifests.ts'

const groups = {
  leases: 'coordination.k8s.io',
  events: '',
  pods: '',
  configmaps: '',
  endpointslices: 'discovery.k8s.io',
}

/** The Lease to which the manifests limit the rights. */
const ownLease = 'my-app'

/** A new namespace with the service account of the manifests. */
export interface TestNamespace {
  readonly namespace: string
  /** The folder with `token` and `ca.crt`, as the kubelet mounts them. */
  readonly folder: string
  readonly token: string
  /** Creates an object in the namespace, and fails if the API server rejects it or warns about it. */
  create(manifest: Manifest): Promise<void>
  /** Waits until the API server grants the service account this right. Default: on the Lease of the manifests. */
  hasRight(verb: string, resource: keyof typeof groups, name?: string): Promise<void>
  remove(): void
}

/** Creates a namespace and applies a service account (default: that of the manifests) and these files. */
export async function newTestNamespace(
  { admin, ca }: ApiServer,
  files: readonly string[] = [],
  account = readManifest('serviceaccount.yaml'),
): Promise<TestNamespace> {
  const namespace = `tenant-${crypto.randomUUID()}`
  await admin.request('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
  const create = async (manifest: Manifest) => {
    const path = `${collectionOf(manifest, namespace)}?fieldValidation=Strict`
    const { status, body } = await admin.request('POST', path, inNamespace(manifest, namespace))
    expect(status, JSON.stringify(body)).toBe(201)
  }
  for (const manifest of [account, ...files.map(readManifest)]) await create(manifest)
  const tokens = `${collectionOf(account, namespace)}/${account.metadata.name}/token`
  const asked = { spec: { expirationSeconds: 3_600 } }
  const { token } = (await admin.request<{ status: { token: string } }>('POST', tokens, asked)).body.status
  const folder = mkdtempSync(join(tmpdir(), 'tenure-service-account-'))
  writeFileSync(join(folder, 'token'), token)
  writeFileSync(join(folder, 'ca.crt'), ca)
  return {
    namespace,
    folder,
    token,
    create,
    async hasRight(verb, resource, name = resource === 'leases' && verb !== 'create' ? ownLease : '') {
      const review = { spec: { resourceAttributes: { namespace, verb, group: groups[resource], resource, name } } }
      const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
      // The authorizer learns about a new Role through a watch.
      const isAllowed = async () =>
        (await admin.request<{ status: { allowed: boolean } }>('POST', path, review, token)).body.status.allowed
      await expect.poll(isAllowed, { timeout: 5_000 }).toBe(true)
    },
    remove: () => rmSync(folder, { recursive: true }),
  }
}
