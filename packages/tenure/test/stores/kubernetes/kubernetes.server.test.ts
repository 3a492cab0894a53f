import { describe, expect, test } from 'vitest'
import { describeWithOwnCluster } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { KubernetesClient } from '../../../src/clients/kubernetes/client.ts'
import type { AcquireClaim, LeaseRecord, LeaseStore, Outcome } from '../../../src/engine/lease-store.ts'
import { observe } from '../../../src/engine/observe.ts'
import { leaseNameOf } from '../../../src/kubernetes/codec/lease-name.ts'
import { kubernetesStore } from '../../../src/stores/kubernetes/index.ts'
import { answerOf, chunkedHead, chunkOf, clientFor, serve } from '../../clients/kubernetes/tls-server.ts'

const namespace = 'default'
const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
const { signal } = new AbortController()

interface Lease {
  metadata: { name: string; annotations?: Record<string, string>; labels?: Record<string, string> }
  spec: Record<string, unknown>
}

let elections = 0

describeWithOwnCluster('kubernetesStore', (cluster) => {
  /** A store, and the requests that it sends. */
  const open = () => {
    const { url, ca, adminToken } = cluster()
    const client = new KubernetesClient({
      server: url,
      credentials: () => ({ authorization: `Bearer ${adminToken}`, tls: { ca } }),
    })
    const requests: string[] = []
    const logged: Pick<KubernetesClient, 'server' | 'request' | 'watch' | 'close'> = {
      server: client.server,
      request(call) {
        requests.push(call.method)
        return client.request(call)
      },
      watch(watch) {
        requests.push(`WATCH ${new URLSearchParams(watch.path.split('?')[1]).get('resourceVersion')}`)
        return client.watch(watch)
      },
      close: () => client.close(),
    }
    return { store: kubernetesStore({ client: logged as KubernetesClient, namespace }), requests }
  }
  const admin = async <Body = Lease>(method: string, path: string, body?: unknown): Promise<Body> => {
    const answer = await cluster().admin.request<Body>(method, path, body)
    if (answer.status >= 300)
      throw new Error(`${method} ${path} was answered with ${answer.status} ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  const leaseOf = (election: string) => admin('GET', `${leases}/${election}`)
  /** Creates a Lease as another program would. */
  const create = (election: string, spec: object, annotations = {}) =>
    admin('POST', leases, {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: election, annotations },
      spec,
    })
  const patch = (election: string, change: object) => admin('PATCH', `${leases}/${election}`, change)

  describe('kubernetesStore conforms', () => {
    const cases = storeConformance(
      () => ({
        store: open().store,
        open: () => open().store,
        forgetsTerms: true,
        lastTerm: 2 ** 31 - 1,
        remove: async (election) => void (await admin('DELETE', `${leases}/${leaseNameOf(election)}`)),
      }),
      { leaseDurationMs: 1_000 },
    )
    for (const { name, run } of cases) test(name, run)
  })

  describe('Leases that kubernetesStore writes', () => {
    test("a grant, a renewal and a release use the Lease's own fields", async () => {
      const { store } = open()
      const claim = claimOf({ holder: 'pod-a', leaseDurationMs: 14_001 })
      const { record } = granted(await store.acquire(claim, { signal }))
      const first = (await leaseOf(claim.election)).spec
      expect(first).toMatchObject({ holderIdentity: 'pod-a', leaseDurationSeconds: 15, leaseTransitions: 1 })
      for (const field of ['acquireTime', 'renewTime']) {
        expect(first[field]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
      }
      const renewed = granted(await store.renew(held(record), { signal })).record
      const second = (await leaseOf(claim.election)).spec
      expect({ ...second, renewTime: '' }).toEqual({ ...first, renewTime: '' })
      expect(seconds(second['renewTime'])).toBeGreaterThan(seconds(first['renewTime']))
      granted(await store.release(held(renewed), { signal }))
      const third = (await leaseOf(claim.election)).spec
      expect(third['holderIdentity'] ?? '').toBe('')
      expect(third).toMatchObject({ leaseTransitions: 1 })
    })

    test('each of several renewals within a second advances renewTime by a whole second', async () => {
      const { store } = open()
      let { record } = granted(await store.acquire(claimOf(), { signal }))
      const seen = new Set<number>()
      for (let count = 0; count < 5; count++) {
        record = granted(await store.renew(held(record), { signal })).record
        seen.add(seconds((await leaseOf(record.election)).spec['renewTime']))
      }
      expect(seen.size).toBe(5)
    })

    test('a grant is valid for the requested duration, not for the rounded one', async () => {
      const { store } = open()
      const grant = granted(await store.acquire(claimOf({ leaseDurationMs: 1_500 }), { signal }))
      expect(grant).toMatchObject({ validForMs: 1_500, record: { leaseDurationMs: 2_000 } })
    })
  })

  describe('Leases that others wrote', () => {
    test('a Lease that client-go created is held in term 0, and taken over in term 1 once it has expired', async () => {
      const { store } = open()
      const { election, ...claim } = claimOf()
      await create(election, {
        holderIdentity: 'client-go',
        leaseDurationSeconds: 15,
        acquireTime: '2026-01-01T00:00:00.000000Z',
        renewTime: '2026-01-01T00:00:00.000000Z',
        leaseTransitions: 0,
      })
      const record = await store.read(election, { signal })
      expect(record).toMatchObject({
        holder: 'client-go',
        attempt: '',
        term: 0,
        leaseDurationMs: 15_000,
        released: false,
      })
      const early = await store.acquire({ election, ...claim }, { signal })
      expect(early).toMatchObject({ ok: false, highestTerm: 0 })
      const taken = await store.acquire({ election, ...claim, expiredVersion: record?.version ?? '' }, { signal })
      expect(granted(taken).record).toMatchObject({ holder: claim.holder, term: 1 })
    })

    test('a Lease without a holder is free, whatever else it contains', async () => {
      for (const spec of [{}, { holderIdentity: '' }, { leaseTransitions: 7 }, { leaseDurationSeconds: 1 }]) {
        const { store } = open()
        const claim = claimOf()
        await create(claim.election, spec)
        const afterTerm = spec.leaseTransitions ?? 0
        const { record } = granted(await store.acquire({ ...claim, afterTerm }, { signal }))
        expect(record.term).toBe(afterTerm + 1)
      }
    })

    test('a Lease with only a holder is held, and its record has the duration 0', async () => {
      const { store } = open()
      const claim = claimOf()
      await create(claim.election, { holderIdentity: 'somebody' })
      expect(await store.acquire(claim, { signal })).toMatchObject({ ok: false, record: { leaseDurationMs: 0 } })
    })

    test('invalid annotations are ignored', async () => {
      for (const text of ['', 'no JSON', '[]', 'null', '{"term":1}', '{"holder":"x","term":"1","attempt":7}', '"x"']) {
        const { store } = open()
        const claim = claimOf()
        const spec = { holderIdentity: 'x', leaseDurationSeconds: 15, leaseTransitions: 1 }
        await create(claim.election, spec, { 'tenure.dev/grant': text })
        expect(await store.read(claim.election, { signal })).toMatchObject({ holder: 'x', attempt: '', term: 1 })
      }
    })

    test('an attempt is no longer valid once another program has taken the Lease and left the annotations', async () => {
      const { store } = open()
      const claim = claimOf()
      const { record } = granted(await store.acquire(claim, { signal }))
      await patch(claim.election, { spec: { holderIdentity: 'client-go', leaseTransitions: 2 } })
      expect(await store.read(claim.election, { signal })).toMatchObject({ holder: 'client-go', attempt: '', term: 2 })
      expect(await store.renew(held(record), { signal })).toMatchObject({ ok: false, highestTerm: 2 })
      expect(await store.release(held(record), { signal })).toMatchObject({ ok: false })
      expect((await leaseOf(claim.election)).spec).toMatchObject({ holderIdentity: 'client-go' })
    })

    test('a term that another program lowered is not granted again', async () => {
      const { store } = open()
      const claim = claimOf()
      granted(await store.acquire({ ...claim, afterTerm: 5, expiredVersion: '' }, { signal }))
      await patch(claim.election, { spec: { holderIdentity: 'other', leaseTransitions: 5 } })
      await patch(claim.election, { spec: { holderIdentity: '', leaseTransitions: 5 } })
      const { version = '' } = (await store.read(claim.election, { signal })) ?? {}
      const fresh = { ...claim, attempt: 'another', holder: 'fresh', expiredVersion: version }
      expect(await store.acquire({ ...fresh, afterTerm: 5 }, { signal })).toMatchObject({ ok: false, highestTerm: 6 })
      expect(granted(await store.acquire({ ...fresh, afterTerm: 6 }, { signal })).record.term).toBe(7)
    })

    test('a Lease that another program wiped still belongs to its holder, whose next renewal repairs it', async () => {
      const { store } = open()
      const claim = claimOf({ leaseDurationMs: 7_000 })
      const { record } = granted(await store.acquire(claim, { signal }))
      // Change the Lease in the same way as a late release of client-go changes that of a successor.
      await patch(claim.election, { spec: { holderIdentity: '', leaseDurationSeconds: 1 } })
      const wiped = await store.read(claim.election, { signal })
      const mine = { holder: claim.holder, attempt: claim.attempt, term: 1, leaseDurationMs: 7_000, released: false }
      expect(wiped).toMatchObject(mine)
      const other = { ...claim, attempt: 'other', holder: 'other', afterTerm: 1 }
      expect(await store.acquire(other, { signal })).toMatchObject({ ok: false, record: mine })
      const refusal = await store.renew(held(record), { signal })
      expect(refusal).toMatchObject({ ok: false, record: mine })
      if (!refusal.record) throw new Error('no record')
      granted(await store.renew(held(refusal.record), { signal }))
      expect((await leaseOf(claim.election)).spec).toMatchObject({ holderIdentity: 'pod-a', leaseDurationSeconds: 7 })
    })

    test('a Lease that its holder released is free, even after client-go held it in between', async () => {
      const { store } = open()
      const claim = claimOf()
      const { record } = granted(await store.acquire(claim, { signal }))
      granted(await store.release(held(record), { signal }))
      expect(await store.read(claim.election, { signal })).toMatchObject({ released: true, term: 1 })
      await patch(claim.election, { spec: { holderIdentity: 'client-go', leaseTransitions: 2 } })
      await patch(claim.election, { spec: { holderIdentity: '' } })
      expect(await store.read(claim.election, { signal })).toMatchObject({ released: true, term: 2, attempt: '' })
    })

    test('fields of other programs are kept in a Lease, and a new label causes only one refused renewal', async () => {
      const { store } = open()
      const claim = claimOf()
      const { record } = granted(await store.acquire(claim, { signal }))
      await patch(claim.election, { metadata: { labels: { team: 'payments' }, annotations: { note: 'hands off' } } })
      const refusal = await store.renew(held(record), { signal })
      expect(refusal).toMatchObject({
        ok: false,
        record: { attempt: claim.attempt, term: record.term, released: false },
      })
      if (!refusal.record) throw new Error('no record')
      granted(await store.renew(held(refusal.record), { signal }))
      const { metadata } = await leaseOf(claim.election)
      expect(metadata).toMatchObject({ labels: { team: 'payments' }, annotations: { note: 'hands off' } })
    })

    test('a checkpoint survives the term of a client-go leader', async () => {
      const { store } = open()
      const claim = claimOf()
      const { record } = granted(await store.acquire(claim, { signal }))
      const { record: carried } = granted(
        await store.renew({ ...held(record), checkpoint: 'last run at 5' }, { signal }),
      )
      granted(await store.release(held(carried), { signal }))
      await patch(claim.election, { spec: { holderIdentity: 'client-go', leaseTransitions: 2 } })
      await patch(claim.election, { spec: { holderIdentity: '' } })
      const next = { ...claim, attempt: 'next', afterTerm: 2 }
      expect(granted(await store.acquire(next, { signal })).record).toMatchObject({
        term: 3,
        checkpoint: 'last run at 5',
      })
    })
  })

  describe('requests of kubernetesStore', () => {
    test('a renewal and a takeover of a known version take one request each', async () => {
      const { store, requests } = open()
      const claim = claimOf()
      const { record } = granted(await store.acquire(claim, { signal }))
      expect(requests.splice(0)).toEqual(['GET', 'POST'])
      const renewed = granted(await store.renew(held(record), { signal })).record
      expect(requests.splice(0)).toEqual(['PUT'])
      const other = open()
      await other.store.read(claim.election, { signal })
      const next = { ...claim, attempt: 'next', afterTerm: 1, expiredVersion: renewed.version }
      granted(await other.store.acquire(next, { signal }))
      expect(other.requests).toEqual(['GET', 'PUT'])
    })

    test('a takeover of a version that was renewed in the meantime is refused by the server, not from memory', async () => {
      const { store, requests } = open()
      const claim = claimOf()
      const { record } = granted(await open().store.acquire(claim, { signal }))
      await store.read(claim.election, { signal })
      const renewed = granted(await open().store.renew(held(record), { signal })).record
      const late = { ...claim, attempt: 'late', afterTerm: 1, expiredVersion: record.version }
      expect(await store.acquire(late, { signal })).toMatchObject({ ok: false, record: { version: renewed.version } })
      expect(requests).toEqual(['GET', 'PUT', 'GET'])
    })
  })

  test("observe shows every change of leader, including client-go's Leases", async () => {
    const { store } = open()
    const election = `looked-on-${++elections}`
    await create(election, { holderIdentity: 'client-go', leaseDurationSeconds: 60, leaseTransitions: 3 })
    const changes: string[] = []
    for await (const { change, record } of observe(store, election, { signal })) {
      changes.push(`${change} ${record?.term}`)
      if (change === 'state') await patch(election, { spec: { renewTime: '2026-11-16T10:00:00.000000Z' } })
      if (change === 'renewed') await patch(election, { spec: { holderIdentity: 'other', leaseTransitions: 4 } })
      if (change === 'replaced') await patch(election, { spec: { holderIdentity: '' } })
      if (change === 'released') await admin('DELETE', `${leases}/${election}`)
      if (change === 'deleted') break
    }
    expect(changes).toEqual(['state 3', 'renewed 3', 'replaced 4', 'released 4', 'deleted undefined'])
    await store.close?.()
  })

  test('list shows every Lease by the name of its election', async () => {
    const { store } = open()
    await create('listed-client-go', { holderIdentity: 'client-go', leaseDurationSeconds: 60 })
    await store.acquire(claimOf({ election: 'Listed Oddly' }), { signal })
    const page = await (store.list?.({ limit: 1_000 }, { signal }) ?? expect.fail('It can list.'))
    const listed = page.records.map(({ election }) => election)
    expect(listed).toEqual(expect.arrayContaining(['listed-client-go', 'Listed Oddly']))
    expect(await store.read('Listed Oddly', { signal })).toEqual(
      page.records.find((record) => record.election === 'Listed Oddly'),
    )
    await expect(store.list?.({ after: 'no such place' }, { signal })).rejects.toThrow(/Cannot list Leases/)
    await store.close?.()
  })

  test('a refused renewal returns the current record after an invalid Lease was repaired', async () => {
    let leaseTransitions: unknown = 1
    let version = 1
    let written: { metadata: object; spec: object } | undefined
    const status = (code: number, reason: string) =>
      answerOf({ kind: 'Status', reason, code }, { status: `${code} ${reason}` })
    const server = await serve(({ socket, line, text }) => {
      if (line.startsWith('GET')) {
        const metadata = { ...written?.metadata, resourceVersion: String(version) }
        const spec = { ...written?.spec, leaseTransitions }
        return void socket.write(written ? answerOf({ ...written, metadata, spec }) : status(404, 'NotFound'))
      }
      const body = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as {
        metadata: Record<string, unknown>
        spec: object
      }
      const stale = line.startsWith('PUT') && body.metadata['resourceVersion'] !== String(version)
      if (stale) return void socket.write(status(409, 'Conflict'))
      version += 1
      written = { ...body, metadata: { ...body.metadata, resourceVersion: String(version) } }
      socket.write(answerOf(written))
    })
    const store = kubernetesStore({ client: clientFor(server.connection), namespace })
    const { record } = granted(await store.acquire(claimOf(), { signal }))
    version += 1
    leaseTransitions = 'odd'
    await expect(store.renew(held(record), { signal })).rejects.toThrow('has invalid fields')
    version += 1
    leaseTransitions = 1
    const refusal = await store.renew(held(record), { signal })
    expect(refusal).toMatchObject({ ok: false, record: { attempt: record.attempt, released: false } })
  })

  describe('watches of kubernetesStore', () => {
    test('a watch starts again when it gets no events because its version is newer than all versions of the server', async () => {
      const { url, ca, adminToken } = cluster()
      const client = new KubernetesClient({
        server: url,
        credentials: () => ({ authorization: `Bearer ${adminToken}`, tls: { ca } }),
      })
      const watched: (string | null)[] = []
      const silences: (() => number)[] = []
      const watch = client.watch.bind(client)
      const request = client.request.bind(client)
      client.watch = (call) => {
        watched.push(new URLSearchParams(call.path.split('?')[1]).get('resourceVersion'))
        silences.push(() => call.silenceMs())
        return watch(call)
      }
      // The version from before etcd was restored.
      client.request = async (call) => {
        const answer = await request(call)
        const { metadata } = answer.body as { metadata: object }
        const body = { ...(answer.body as object), metadata: { ...metadata, resourceVersion: '99999999' } }
        return watched.length === 0 ? { ...answer, body } : answer
      }
      const claim = claimOf()
      // The watch timeout is one and a half leases, six seconds.
      await create(claim.election, { holderIdentity: 'x', leaseDurationSeconds: 4, leaseTransitions: 1 })
      const states = watchOf(kubernetesStore({ client, namespace }), claim.election)
      expect(await states.next()).toMatchObject({ version: '99999999' })
      const { version } = (await states.next()) ?? {}
      expect(version).not.toBe('99999999')
      const changed = states.next()
      await expect.poll(() => watched).toEqual(['99999999', '0'])
      await patch(claim.election, { spec: { holderIdentity: 'y' } })
      expect(await changed).toMatchObject({ holder: 'y' })
      const prolonged = states.next()
      await patch(claim.election, { spec: { leaseDurationSeconds: 900 } })
      expect(await prolonged).toMatchObject({ leaseDurationMs: 900_000 })
      // Only the first watch requested bookmarks. Without them, a long lease is silent between its renewals.
      expect(silences.map((silenceMs) => silenceMs())).toEqual([90_000, 1_350_000])
      await states.end()
    })

    test('a watch is restarted only once when every watch is answered with 410', async () => {
      const lease = {
        kind: 'Lease',
        metadata: { name: 'e', resourceVersion: '5' },
        spec: { holderIdentity: 'x', leaseDurationSeconds: 15, leaseTransitions: 1 },
      }
      const gone = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' }
      const events = [
        { type: 'ADDED', object: lease },
        { type: 'ERROR', object: gone },
      ]
      const server = await serve(({ socket, line }) => {
        if (!line.includes('watch=1')) return void socket.write(answerOf(lease))
        const lines = events.map((event) => chunkOf(`${JSON.stringify(event)}\n`))
        socket.write(`${chunkedHead}${lines.join('')}0\r\n\r\n`)
      })
      const states = watchOf(kubernetesStore({ client: clientFor(server.connection), namespace }), 'e')
      await states.next()
      await states.next()
      await expect(states.next()).rejects.toMatchObject({ status: 410 })
      expect(server.exchanges.length).toBe(4)
    })

    test('a forbidden watch of one election does not affect the others', async () => {
      const forbidden = { kind: 'Status', code: 403, reason: 'Forbidden', message: 'not this one' }
      const absent = { kind: 'Status', code: 404, reason: 'NotFound' }
      const server = await serve(({ socket, line }) => {
        if (!line.includes('watch=1')) return void socket.write(answerOf(absent, { status: '404 Not Found' }))
        if (line.includes('theirs')) return void socket.write(answerOf(forbidden, { status: '403 Forbidden' }))
        socket.write(chunkedHead)
      })
      const store = kubernetesStore({ client: clientFor(server.connection), namespace })
      const theirs = watchOf(store, 'theirs')
      await theirs.next()
      await expect(theirs.next()).rejects.toMatchObject({ status: 403 })
      // The next watch ends immediately, without a request.
      const asked = server.exchanges.length
      expect(await watchOf(store, 'theirs').next()).toBeUndefined()
      expect(server.exchanges.length).toBe(asked)
      const mine = watchOf(store, 'mine')
      await mine.next()
      expect(server.exchanges.length).toBe(asked + 1)
      await mine.end()
    })

    test('a watch starts again when the API server no longer has its history', async () => {
      const claim = claimOf()
      const { record } = granted(await open().store.acquire(claim, { signal }))
      for (let count = 0; count < 3; count++) await open().store.acquire(claimOf(), { signal })
      await cluster().restart('SIGKILL')
      const { store, requests } = open()
      const watch = watchOf(store, claim.election)
      expect(await watch.next()).toMatchObject({ version: record.version })
      const again = watch.next()
      const renewed = again.then(() => watch.next())
      await expect.poll(() => requests).toEqual(['GET', `WATCH ${record.version}`, 'GET', 'WATCH 0'])
      expect(await again).toMatchObject({ version: record.version })
      const { record: next } = granted(await open().store.renew(held(record), { signal }))
      expect(await renewed).toMatchObject({ version: next.version })
      await watch.end()
    })
  })
})

function watchOf(store: LeaseStore, election: string) {
  const controller = new AbortController()
  const states = store.watch?.(election, { signal: controller.signal })[Symbol.asyncIterator]()
  if (!states) throw new Error('no watch')
  return {
    next: async () => (await states.next()).value,
    async end() {
      controller.abort()
      await states.return?.()
    },
  }
}

function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  elections += 1
  return {
    election: `election-${elections}`,
    holder: 'pod-a',
    attempt: `attempt-${elections}`,
    leaseDurationMs: 15_000,
    afterTerm: 0,
    metadata: {},
    ...change,
  }
}

function granted(outcome: Outcome): { record: LeaseRecord; validForMs: number } {
  if (outcome.ok) return outcome
  throw new Error(`refused: ${JSON.stringify(outcome)}`)
}

function seconds(time: unknown): number {
  return Math.floor(Date.parse(String(time)) / 1000)
}
