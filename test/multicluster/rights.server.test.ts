import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../packages/tenure/src/common/clock.ts'
import { KubernetesClient } from '../../packages/tenure/src/clients/kubernetes/client.ts'
import { kubernetesResources } from '../../packages/tenure/src/multicluster/kubernetes-resources.ts'
import type { MultiClusterLease } from '../../packages/tenure/src/multicluster/protocol/resource-types.ts'
import type { ResourceScope } from '../../packages/tenure/src/multicluster/resources.ts'
import { kubernetesStore } from '../../packages/tenure/src/stores/kubernetes/index.ts'
import { inNamespace, type Manifest } from '../kubernetes/manifests.ts'
import { applyTo, base, pathOf, readManifest } from './manifests.ts'
import { installCrd } from '../servers/multicluster-crd.ts'
import { describeWithCluster } from '../servers/suite.ts'

const call = { signal: new AbortController().signal }
const request = {
  id: '1',
  verb: 'read',
  renewTime: '2026-01-01T00:00:00Z',
  timeoutMs: 5_000,
  claim: { holder: 'a' },
} as const
const home = 'tenure-system'

describeWithCluster('the rights of deploy/multicluster', (cluster) => {
  let candidate: string
  let controller: string
  let limited: string
  let jobs: string

  /** Returns the token of a service account. */
  const tokenOf = async (namespace: string, name: string): Promise<string> => {
    const account: Manifest = { ...readManifest('serviceaccount.yaml'), metadata: { name } }
    const placed = inNamespace(account, namespace)
    await applyTo(cluster(), placed)
    const asked = { spec: { expirationSeconds: 3_600 } }
    const { body } = await cluster().admin.request<{ status: { token: string } }>(
      'POST',
      `${pathOf(placed)}/token`,
      asked,
    )
    return body.status.token
  }
  const clientOf = (token: string) => {
    const { url, ca } = cluster()
    const client = new KubernetesClient({
      server: url,
      credentials: () => ({ authorization: `Bearer ${token}`, tls: { ca } }),
    })
    onTestFinished(() => client.close())
    return client
  }
  const resourcesOf = (token: string) => kubernetesResources(clientOf(token), systemClock)
  const isAllowed = async (token: string, namespace: string, verb: string, resource: string) => {
    const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
    const [plural, subresource = ''] = resource.split('/')
    const resourceAttributes = { namespace, verb, group: 'tenure.dev', resource: plural, subresource }
    const review = { spec: { resourceAttributes } }
    const { body } = await cluster().admin.request<{ status: { allowed: boolean } }>('POST', path, review, token)
    return body.status.allowed
  }
  /** Returns the rights of an account in a namespace, beyond those that every account has. */
  const rulesOf = async (token: string, namespace: string) => {
    interface Rule {
      verbs: string[]
      apiGroups: string[]
      resources: string[]
    }
    const path = '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews'
    const { body } = await cluster().admin.request<{ status: { resourceRules: Rule[] } }>(
      'POST',
      path,
      { spec: { namespace } },
      token,
    )
    return body.status.resourceRules
      .filter(({ apiGroups: [group = ''] }) => !/^(authorization|authentication)\.k8s\.io$/.test(group))
      .flatMap(({ verbs, resources }) => resources.map((resource) => `${resource}: ${verbs.toSorted().join(', ')}`))
      .toSorted()
  }
  let names = 0
  /** Creates a resource as an admin. */
  const newResource = async (): Promise<MultiClusterLease> => {
    const key = { namespace: jobs, name: `election-${++names}` }
    const created = await resourcesOf(cluster().adminToken).create(key, { requests: { one: request } }, undefined, call)
    if (!created) throw new Error('the resource was not created')
    return created
  }
  const first = async (token: string, scope: ResourceScope) => {
    const ending = new AbortController()
    onTestFinished(() => ending.abort())
    const { value } = await resourcesOf(token).watch(scope, { signal: ending.signal })[Symbol.asyncIterator]().next()
    return value as unknown
  }

  beforeAll(async () => {
    jobs = cluster().namespace
    for (const manifest of base) await applyTo(cluster(), manifest)
    for (const file of ['role.yaml', 'rolebinding.yaml']) {
      await applyTo(cluster(), inNamespace(readManifest(`candidate/${file}`), jobs))
    }
    candidate = await tokenOf(jobs, 'my-app')
    controller = await tokenOf(home, 'tenure-controller')
    limited = await tokenOf(home, 'limited')
    const subjects = [{ kind: 'ServiceAccount', name: 'limited', namespace: home }]
    for (const file of ['role.yaml', 'rolebinding.yaml']) {
      const manifest = readManifest(`components/one-namespace/${file}`)
      const metadata = { ...manifest.metadata, namespace: jobs }
      await applyTo(cluster(), { ...manifest, metadata, ...(manifest['subjects'] !== undefined && { subjects }) })
    }
    // The authorizer learns about a new Role through a watch, and the server about a new kind through another.
    const soon = { timeout: 20_000 }
    const status = 'multiclusterleases/status'
    await vi.waitUntil(() => isAllowed(candidate, jobs, 'patch', 'multiclusterleases'), soon)
    await vi.waitUntil(() => isAllowed(limited, jobs, 'patch', status), soon)
    await vi.waitUntil(() => isAllowed(controller, jobs, 'patch', status), soon)
    await installCrd(cluster())
  })

  describe('the rights of a candidate', () => {
    test('a candidate may read, create, patch, and watch its resource, in its namespace only', async () => {
      const api = resourcesOf(candidate)
      const key = { namespace: jobs, name: `own-${++names}` }
      expect(await api.get(key, call)).toBeUndefined()
      expect(await api.create(key, { requests: {} }, undefined, call)).toMatchObject(key)
      expect(await api.patchSpec(key, { requests: { one: request } }, call)).toMatchObject({ generation: 2 })
      expect(await first(candidate, key)).toMatchObject({ type: 'all', resources: [key] })
      await expect(api.get({ ...key, namespace: home }, call)).rejects.toMatchObject({ status: 403 })
    })

    test('a candidate may not write a status', async () => {
      const resource = await newResource()
      const forged = { leader: 'me', answers: { one: { id: '1', ok: true } } }
      for (const over of [undefined, resource.resourceVersion]) {
        const patched = resourcesOf(candidate).patchStatus(resource, forged, over, call)
        await expect(patched).rejects.toThrow(/cannot patch resource "multiclusterleases\/status"/)
        await expect(patched).rejects.toMatchObject({ code: 'UNAUTHORIZED', status: 403 })
      }
      // A candidate cannot write a status together with the spec either: the API server ignores it there.
      const path = `/apis/tenure.dev/v1alpha1/namespaces/${jobs}/multiclusterleases`
      const kind = { apiVersion: 'tenure.dev/v1alpha1', kind: 'MultiClusterLease' }
      const body = { status: forged, spec: { holderIdentity: 'me' } }
      const patched = await cluster().admin.request('PATCH', `${path}/${resource.name}`, body, candidate)
      expect(patched).toMatchObject({ status: 200, body: { spec: { holderIdentity: 'me' } } })
      expect(patched.body).not.toHaveProperty('status')
      const made = { ...kind, metadata: { name: `${resource.name}-forged` }, ...body }
      const created = await cluster().admin.request('POST', path, made, candidate)
      expect(created.status).toBe(201)
      expect(created.body).not.toHaveProperty('status')
    })

    test('a candidate has only the rights to create, get, patch, and watch resources', async () => {
      expect(await rulesOf(candidate, jobs)).toEqual(['multiclusterleases: create, get, patch, watch'])
      expect(await rulesOf(candidate, home)).toEqual([])
      await expect(first(candidate, { namespace: jobs })).rejects.toThrow(/cannot list resource "multiclusterleases"/)
    })
  })

  describe('the rights of a controller', () => {
    test('a controller may watch the resources of all namespaces, write their status, and create Events', async () => {
      const resource = await newResource()
      expect(await first(controller, {})).toMatchObject({ type: 'all' })
      const api = resourcesOf(controller)
      expect(await api.get(resource, call)).toEqual(resource)
      const answers = { one: { id: '1', ok: true } }
      expect(await api.patchStatus(resource, { answers }, resource.resourceVersion, call)).toMatchObject({
        status: { answers },
      })
      const events = `/api/v1/namespaces/${jobs}/events`
      const event = {
        metadata: { generateName: 'test.' },
        involvedObject: { kind: 'MultiClusterLease', namespace: jobs, name: resource.name },
        reason: 'Elected',
      }
      expect((await cluster().admin.request('POST', events, event, controller)).status).toBe(201)
    })

    test('a controller may not write a spec', async () => {
      const resource = await newResource()
      const api = resourcesOf(controller)
      const patched = api.patchSpec(resource, { holderIdentity: 'me', requests: {} }, call)
      await expect(patched).rejects.toThrow(/cannot patch resource "multiclusterleases"/)
      await expect(patched).rejects.toMatchObject({ code: 'UNAUTHORIZED', status: 403 })
      const created = api.create({ ...resource, name: 'made-by-a-controller' }, { requests: {} }, undefined, call)
      await expect(created).rejects.toThrow(/cannot create resource "multiclusterleases"/)
      // A controller cannot write a spec together with the status either: the API server ignores it there.
      const path = `/apis/tenure.dev/v1alpha1/namespaces/${jobs}/multiclusterleases/${resource.name}/status`
      const body = { spec: { holderIdentity: 'me' }, status: { leader: 'me' } }
      const written = await cluster().admin.request<{ spec: object }>('PATCH', path, body, controller)
      expect(written).toMatchObject({ status: 200, body: { status: { leader: 'me' }, metadata: { generation: 1 } } })
      expect(written.body.spec).toEqual({ requests: { one: request } })
    })

    test('a controller may elect the primary controller in its own namespace only', async () => {
      const claim = {
        election: `tenure-controller-${++names}`,
        holder: 'a',
        attempt: 'a',
        leaseDurationMs: 15_000,
        afterTerm: 0,
        metadata: {},
      }
      const store = kubernetesStore({ client: clientOf(controller), namespace: home })
      expect(await store.acquire(claim, call)).toMatchObject({ ok: true })
      const elsewhere = kubernetesStore({ client: clientOf(controller), namespace: jobs })
      await expect(elsewhere.acquire(claim, call)).rejects.toMatchObject({ status: 403 })
    })

    test('a controller has only the rights that it needs, in all namespaces and in its own', async () => {
      const everywhere = ['events: create', 'multiclusterleases/status: patch', 'multiclusterleases: get, list, watch']
      expect(await rulesOf(controller, jobs)).toEqual(everywhere)
      expect(await rulesOf(controller, home)).toEqual([
        everywhere[0],
        'leases: create, get, update, watch',
        everywhere[1],
        everywhere[2],
      ])
    })

    test('with the component for one namespace, a controller has its rights in that namespace only', async () => {
      const resource = await newResource()
      expect(await first(limited, { namespace: jobs })).toMatchObject({ type: 'all' })
      expect(await resourcesOf(limited).patchStatus(resource, { leader: 'a' }, undefined, call)).toBeDefined()
      await expect(first(limited, {})).rejects.toThrow(/cannot list resource "multiclusterleases"/)
      const other = { ...resource, namespace: home }
      await expect(resourcesOf(limited).patchStatus(other, { leader: 'a' }, undefined, call)).rejects.toMatchObject({
        status: 403,
      })
    })
  })
})
