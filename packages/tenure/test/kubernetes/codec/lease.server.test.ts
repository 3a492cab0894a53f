import { expect, test } from 'vitest'
import { describeWithCluster } from '../../../../../test/servers/suite.ts'
import { decodeLease, encodeLease, noLease } from '../../../src/kubernetes/codec/lease.ts'
import { key, noon, draft, read } from './lease-fixtures.ts'

describeWithCluster('Leases on a real API server', (cluster) => {
  const leases = () => `/apis/coordination.k8s.io/v1/namespaces/${cluster().namespace}/leases`
  const send = async (method: string, path: string, body?: unknown) => {
    const answer = await cluster().admin.request(method, path, body)
    if (answer.status >= 300) throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`)
    return decodeLease(answer.body)
  }

  test('the API server accepts encoded Leases and returns them unchanged', async () => {
    const holders = ['pod-a', ' ', '__proto__', 'grüße 🚀', '"quoted"', 'x'.repeat(256)]
    for (const [index, holder] of holders.entries()) {
      const to = { ...key, namespace: cluster().namespace, name: `taken-${index}` }
      const wanted = {
        ...draft,
        holder,
        checkpoint: `checkpoint of ${holder}`,
        metadata: { holder },
        leaseDurationMs: 1_500,
      }
      const first = await send('POST', leases(), encodeLease(to, wanted, noLease))
      expect(read(first)).toEqual({ ...wanted, leaseDurationMs: 2_000, version: first.lease.metadata.resourceVersion })
      const renewed = await send('PUT', `${leases()}/${to.name}`, encodeLease(to, read(first), first))
      expect(renewed.lease.spec).toEqual({ ...first.lease.spec, renewTime: '2030-01-01T12:00:01.000000Z' })
      const released = await send(
        'PUT',
        `${leases()}/${to.name}`,
        encodeLease(to, { ...read(renewed), released: true }, renewed),
      )
      expect(read(released)).toMatchObject({ holder, attempt: 'x.1', term: 7, released: true })
      expect(released.lease.spec).not.toHaveProperty('holderIdentity')
    }
  })

  test('the API server accepts the last term, and the earliest and latest times', async () => {
    const to = { ...key, namespace: cluster().namespace, name: 'ends' }
    const first = await send(
      'POST',
      leases(),
      encodeLease(to, { ...draft, term: 2_147_483_647, acquiredAt: 0 }, noLease),
    )
    expect(read(first)).toMatchObject({ term: 2_147_483_647, acquiredAt: 0 })
    for (const time of ['0001-01-01T00:00:00.000000Z', '9999-12-31T23:59:59.999999Z']) {
      const before = await send('PATCH', `${leases()}/${to.name}`, { spec: { acquireTime: time, renewTime: time } })
      const after = await send(
        'PUT',
        `${leases()}/${to.name}`,
        encodeLease(to, { ...read(before), renewedAt: noon }, before),
      )
      expect(after.lease.spec['renewTime']).toBe('2030-01-01T12:00:00.000000Z')
    }
  })

  test('the API server accepts the release of a Lease whose duration and times someone removed', async () => {
    const to = { ...key, namespace: cluster().namespace, name: 'stripped' }
    await send('POST', leases(), encodeLease(to, draft, noLease))
    const nothing = { leaseDurationSeconds: null, acquireTime: null, renewTime: null }
    const stripped = await send('PATCH', `${leases()}/${to.name}`, { spec: nothing })
    expect(read(stripped)).toMatchObject({ attempt: 'x.1', leaseDurationMs: 0, released: false })
    const released = await send(
      'PUT',
      `${leases()}/${to.name}`,
      encodeLease(to, { ...read(stripped), released: true }, stripped),
    )
    expect(read(released)).toMatchObject({ attempt: 'x.1', released: true })
  })
})
