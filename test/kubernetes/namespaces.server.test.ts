import { expect } from 'vitest'
import type { CallReport } from '../../packages/tenure/src/engine/events.ts'
import { describeWithCluster } from '../servers/suite.ts'
import { sceneTest } from './lease-fixture.ts'

describeWithCluster('Leases of one name in two namespaces', (cluster) => {
  const test = sceneTest(cluster)

  test('Leases of the same name in two namespaces have one leader each, with distinguishable events, calls, and Kubernetes Events', async ({
    scene,
  }) => {
    const { admin, namespace } = scene.cluster
    const other = `${namespace}-b`
    const { status } = await admin.request('POST', '/api/v1/namespaces', { metadata: { name: other } })
    expect(status).toBe(201)
    const calls: CallReport[] = []
    const replicas = [namespace, other].map((leaseNamespace) =>
      scene.replica('pod-a', { leaseNamespace, recordEvents: true }),
    )
    const elected = await Promise.all(replicas.map((replica) => scene.event(replica, 'elected')))
    expect(elected.map((event) => [event.namespace, event.election, event.term])).toEqual([
      [namespace, scene.leaseName, 1],
      [other, scene.leaseName, 1],
    ])
    // Both lead, because these are two elections.
    scene.mayOverlap = true
    const standbys = [namespace, other].map((leaseNamespace) => {
      const observer = { onCall: (report: CallReport) => void calls.push(report) }
      return scene.replica('pod-b', { leaseNamespace, observer })
    })
    await scene.until(() => standbys.every(({ elector }) => elector.getLeader() === 'pod-a'))
    expect(new Set(calls.map((call) => `${call.namespace}/${call.election}`))).toEqual(
      new Set([`${namespace}/${scene.leaseName}`, `${other}/${scene.leaseName}`]),
    )
    for (const replica of replicas) replica.abort()
    await Promise.all(replicas.map(({ run }) => run))
    const query = new URLSearchParams({ fieldSelector: `involvedObject.name=${scene.leaseName}` })
    for (const place of [namespace, other]) {
      const { body } = await admin.request<{ items: { involvedObject: { namespace: string }; message: string }[] }>(
        'GET',
        `/api/v1/namespaces/${place}/events?${query.toString()}`,
      )
      const told = body.items.map(({ involvedObject, message }) => `${involvedObject.namespace}: ${message}`)
      expect(told.sort()).toEqual([`${place}: pod-a became leader`, `${place}: pod-a stopped leading`])
    }
  })
})
