import { describe, expect, test } from 'vitest'
import type { AcquireClaim, HeldClaim, LeaseRecord, LeaseStore } from '../../../src/engine/lease-store.ts'
import { kubernetesStore } from '../../../src/stores/kubernetes/index.ts'
import { clientFor } from '../../clients/kubernetes/tls-server.ts'
import { serveLeases } from '../../kubernetes/lease-api-server.ts'

const call = { signal: new AbortController().signal, timeoutMs: 10_000 }

function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const holder = change.holder ?? 'ada'
  const fields = { election: 'nightly', holder, attempt: `attempt of ${holder}`, leaseDurationMs: 15_000 }
  return { ...fields, afterTerm: 0, metadata: {}, writeId: `writeId of ${holder}`, ...change }
}

function heldBy({ holder, attempt, term, version }: LeaseRecord): HeldClaim {
  return { election: 'nightly', holder, attempt, term, version, leaseDurationMs: 15_000, writeId: 'renewed' }
}

async function granted(store: LeaseStore, change: Partial<AcquireClaim> = {}): Promise<LeaseRecord> {
  const outcome = await store.acquire(claimOf(change), call)
  return outcome.ok ? outcome.record : expect.unreachable(`not granted: ${JSON.stringify(outcome)}`)
}

/** Two instances of a deployment, each with its own connection to the same API server. */
async function twoInstances() {
  const server = await serveLeases()
  const open = () => kubernetesStore({ client: clientFor(server.connection), namespace: 'jobs' })
  return { server, first: open(), second: open(), lease: () => server.leases.get('nightly')?.spec }
}

describe('the unit tests that document 000 requires of a backend, on a Kubernetes Lease', () => {
  test('single instance acquires leadership', async () => {
    const { first, lease } = await twoInstances()
    expect(await granted(first)).toMatchObject({ holder: 'ada', term: 1, leaseDurationMs: 15_000, released: false })
    const aTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
    const fields = { holderIdentity: 'ada', leaseDurationSeconds: 15, acquireTime: aTime, renewTime: aTime }
    expect(lease()).toMatchObject(fields)
  })

  test('second instance blocked while first holds lease', async () => {
    const { first, second, lease } = await twoInstances()
    await granted(first)
    const outcome = await second.acquire(claimOf({ holder: 'bob', afterTerm: 1 }), call)
    expect(outcome).toMatchObject({ ok: false, record: { holder: 'ada', term: 1 }, highestTerm: 1 })
    expect(lease()).toMatchObject({ holderIdentity: 'ada' })
  })

  test('lease expiry allows takeover', async () => {
    const { first, second } = await twoInstances()
    const held = await granted(first)
    // The second instance has seen this version for its whole duration.
    const taken = await granted(second, { holder: 'bob', afterTerm: 1, expiredVersion: held.version })
    expect(taken).toMatchObject({ holder: 'bob', term: 2 })
    expect(await first.renew(heldBy(held), call)).toMatchObject({ ok: false, record: { holder: 'bob' } })
  })

  test('renewal extends lease', async () => {
    const { first, second } = await twoInstances()
    const held = await granted(first)
    expect(await first.renew(heldBy(held), call)).toMatchObject({ ok: true, record: { holder: 'ada', term: 1 } })
    const late = claimOf({ holder: 'bob', afterTerm: 1, expiredVersion: held.version })
    expect(await second.acquire(late, call)).toMatchObject({ ok: false, record: { holder: 'ada' } })
  })

  test('release allows immediate takeover', async () => {
    const { first, second, lease } = await twoInstances()
    const held = await granted(first)
    expect(await first.release(heldBy(held), call)).toMatchObject({ ok: true, record: { released: true } })
    expect(lease()?.['holderIdentity'] ?? '').toBe('')
    expect(await granted(second, { holder: 'bob', afterTerm: 1 })).toMatchObject({ holder: 'bob', term: 2 })
  })
})

test('exactly one of two instances is elected when both create or take over the same Lease at once', async () => {
  const { first, second } = await twoInstances()
  const race = async (change: Partial<AcquireClaim>) => {
    const claims = [first.acquire(claimOf(change), call), second.acquire(claimOf({ ...change, holder: 'bob' }), call)]
    return (await Promise.all(claims)).flatMap((outcome) => (outcome.ok ? [outcome.record] : []))
  }
  const created = await race({})
  expect(created.map(({ term }) => term)).toEqual([1])
  const expiredVersion = created[0]?.version ?? ''
  const again = await race({ afterTerm: 1, expiredVersion, attempt: 'another' })
  expect(again.map(({ term }) => term)).toEqual([2])
})
