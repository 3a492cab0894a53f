import { beforeAll, expect, test } from 'vitest'
import { installCrd } from '../../../../test/servers/multicluster-crd.ts'
import { describeWithCluster } from '../../../../test/servers/suite.ts'
import { systemClock } from '../../src/common/clock.ts'
import { kubernetesResources } from '../../src/multicluster/kubernetes-resources.ts'
import { clientFor } from '../clients/kubernetes/tls-server.ts'
import { requestOf, resourcesSuite, watchOf } from './resources-suite.ts'

const call = { signal: new AbortController().signal }

describeWithCluster('MultiClusterLeases on a real API server', (cluster) => {
  beforeAll(() => installCrd(cluster()))

  const open = () => {
    const { url, adminToken, ca, namespace, admin } = cluster()
    const credentials = () => ({ authorization: `Bearer ${adminToken}`, tls: { ca } })
    return {
      resources: kubernetesResources(clientFor({ server: url, credentials }), systemClock),
      namespace,
      delete: (key: { readonly namespace: string; readonly name: string }) =>
        admin.request('DELETE', `/apis/tenure.dev/v1alpha1/namespaces/${key.namespace}/multiclusterleases/${key.name}`),
    }
  }

  resourcesSuite(open)

  test('a watch shows all resources of a namespace, on any number of pages', async () => {
    const { resources } = open()
    const namespace = `many-${crypto.randomUUID()}`
    await cluster().admin.request('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
    const keys = Array.from({ length: 230 }, (_, index) => ({ namespace, name: `e-${index}` }))
    const { signal } = new AbortController()
    for (let from = 0; from < keys.length; from += 10) {
      const some = keys.slice(from, from + 10)
      await Promise.all(some.map((key) => resources.create(key, { requests: {} }, undefined, { signal })))
    }
    const next = watchOf(resources, { namespace })
    const all = await next()
    if (all.type !== 'all') throw new Error(all.type)
    const found = all.resources.map(({ name }) => name)
    expect(found.toSorted()).toEqual(keys.map(({ name }) => name).toSorted())
    const everything = await watchOf(resources, {})()
    if (everything.type !== 'all') throw new Error(everything.type)
    expect(everything.resources.filter((resource) => resource.namespace === namespace)).toHaveLength(230)
    const change = next()
    const [key] = keys
    if (!key) throw new Error('no key')
    const patched = await resources.patchSpec(key, { requests: { one: requestOf('1') } }, call)
    expect(await change).toEqual({ type: 'put', resource: patched })
  })

  test('the API server tracks no fields of a resource once a candidate has patched it', async () => {
    const { resources, namespace } = open()
    const key = { namespace, name: `untracked-${crypto.randomUUID()}` }
    const path = `/apis/tenure.dev/v1alpha1/namespaces/${namespace}/multiclusterleases/${key.name}`
    const tracked = async () => {
      const { body } = await cluster().admin.request<{ metadata: { managedFields?: unknown } }>('GET', path)
      return body.metadata.managedFields
    }
    const created = await resources.create(key, { requests: { one: requestOf('1') } }, undefined, call)
    if (!created) throw new Error('the resource already exists')
    expect(await tracked()).toHaveLength(1)
    await resources.patchSpec(key, { requests: { one: requestOf('2') } }, call)
    expect(await tracked()).toBeUndefined()
    const written = await resources.patchStatus({ ...key, uid: created.uid }, { term: 1 }, undefined, call)
    expect(written?.status.term).toBe(1)
    expect(await tracked()).toBeUndefined()
  })
})
