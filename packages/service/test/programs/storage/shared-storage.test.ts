import { randomUUID } from 'node:crypto'
import { Elector, type Leadership } from 'tenure'
import { storeConformance } from 'tenure/conformance'
import { describe, expect, onTestFinished, test } from 'vitest'
import { etcd, removeKeys } from '../../../../../test/servers/etcd.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { systemClock } from '../../../src/clock.ts'
import { openSharedStorage, type SharedStorage } from '../../../src/storage/open-storage.ts'
import { batchAfter, read, write } from '../../storage/data.ts'

async function open(url: string, environment = {}): Promise<SharedStorage> {
  const shared = await openSharedStorage(url, { newId: randomUUID, clock: systemClock, environment })
  onTestFinished(() => shared.close())
  return shared
}

/** The candidacy of one replica. */
function campaign({ leases }: SharedStorage, identity: string): Elector {
  const elector = new Elector({ store: leases, election: 'active', identity, leaseDurationMs: 3_000 })
  onTestFinished(() => elector.stop())
  elector.start()
  return elector
}

/** Becomes active: from here on nobody below this term appends. */
async function takeOver({ storage }: SharedStorage, { term }: Leadership) {
  const head = await storage.head()
  expect(term).toBeGreaterThan(head.term)
  const swap = batchAfter(head, [], { term })
  expect(await storage.append(head, swap)).toBe('done')
  return swap.head
}

describeWith(etcd, 'a storage in etcd that replicas share', (server) => {
  const urlOf = (prefix: string = randomUUID()) => `${server().url.replace('http:', 'etcd:')}/${prefix}`
  const leaseKeys = (prefix: string) => `${prefix}/service:leases/`

  describe('its leases conform', () => {
    const prefix = randomUUID()
    const opened: SharedStorage[] = []
    const cases = storeConformance(
      async () => {
        const shared = await openSharedStorage(urlOf(prefix), {
          newId: randomUUID,
          clock: systemClock,
          environment: {},
        })
        opened.push(shared)
        return {
          store: shared.leases,
          open: async () => (await open(urlOf(prefix))).leases,
          remove: (election) => removeKeys(server(), `${leaseKeys(prefix)}${encodeURIComponent(election)}/record`),
          close: () => shared.close(),
        }
      },
      { leaseDurationMs: 1_000 },
    )
    for (const { name, run } of cases) test(name, run)
  })

  test('replicas that open it find the same data, and are told what is wrong with the server', async () => {
    const url = urlOf('a/b')
    const [one, other] = await Promise.all([open(url), open(url)])
    await write(one.storage, { id: 'g', record: { term: 3 } })
    expect(await read(other.storage)).toEqual([{ id: 'g', record: { term: 3 }, seq: 1 }])
    expect(one.warnings).toEqual([expect.stringContaining('one member')])
    const elsewhere = await open(urlOf('a'))
    expect(await read(elsewhere.storage)).toEqual([])
  })

  test('a lease whose keys are lost elects nobody in a term that the active one has had', async () => {
    const prefix = randomUUID()
    const [one, other] = await Promise.all([open(urlOf(prefix)), open(urlOf(prefix))])
    const first = await campaign(one, 'one').waitForLeadership()
    const head = await takeOver(one, first)
    const batch = batchAfter(head, [{ id: 'g', record: { term: 1 } }])
    expect(await one.storage.append(head, batch)).toBe('done')
    await removeKeys(server(), leaseKeys(prefix), leaseKeys(prefix).replace(/\/$/, '0'))
    // It never saw the keys.
    const second = await campaign(other, 'other').waitForLeadership()
    expect(first.isLeader()).toBe(false)
    expect(second.term).toBeGreaterThan(batch.head.term)
    await takeOver(other, second)
    expect(await one.storage.append(batch.head, batchAfter(batch.head, [{ id: 'g', record: { term: 2 } }]))).toBe(
      'fenced',
    )
    expect(await read(other.storage)).toEqual([{ id: 'g', record: { term: 1 }, seq: 2 }])
  })

  test('other servers, and what is wrong with a URL, are refused in words', async () => {
    const refused = (url: string) => open(url).catch((error: Error) => error.message)
    expect(await refused('redis://:hunter2@127.0.0.1/')).toMatch(/^store redis:.* is not possible: it must be "etcd:/)
    expect(await refused('redis://:hunter2@127.0.0.1/')).not.toContain('hunter2')
    expect(await refused('/var/lib')).toMatch(/it must be "etcd:/)
    expect(await refused('etcd://127.0.0.1:1/p?x=1')).toMatch(/it must be "etcd:\/\/host:2379,host:2379\/prefix"/)
    expect(await refused('etcd://u:hun/ter2@127.0.0.1:1/p')).toMatch(/percent-encode user and password/)
    expect(await refused('etcd://127.0.0.1:1/p')).toMatch(/cannot be reached/)
  })
})
