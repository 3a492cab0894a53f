import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { storeConformance } from '../../packages/testing/src/conformance/index.ts'
import type { AcquireClaim } from '../../packages/tenure/src/engine/lease-store.ts'
import * as sound from '../../packages/tenure/src/stores/service/index.ts'
import { loadMutant } from '../mutants/mutant.ts'
import { passes } from '../mutants/passes-check.ts'
import { serviceMutations } from '../../packages/tenure/test/stores/service/mutants.ts'
import { startProxy } from '../servers/proxy.ts'
import type { RunningServer } from '../servers/server.ts'
import { serve } from './serve.ts'

type Library = Pick<typeof sound, 'serviceStore'>

const services: RunningServer[] = []
beforeAll(async () => {
  services.push(await serve(), await serve())
})
afterAll(async () => {
  for (const service of services) await service.stop()
})

const call = { signal: new AbortController().signal, timeoutMs: 2_000 }
const soon = { ...call, timeoutMs: 600 }

function claimOf(): AcquireClaim {
  const election = `mutant-${randomUUID()}`
  return { election, holder: 'ada', attempt: randomUUID(), leaseDurationMs: 5_000, afterTerm: 0, metadata: {} }
}

/** A store that has used the first service, and then reaches only the second one, which is another cluster. */
async function strayed({ serviceStore }: Library) {
  const [right, wrong] = services
  ok(right && wrong)
  const proxy = await startProxy(right.port)
  try {
    const store = serviceStore({ url: [`http://127.0.0.1:${proxy.port}`, wrong.url] })
    await store.read('any', call)
    proxy.refuse()
    proxy.reset()
    return { store, wrong: serviceStore({ url: wrong.url }) }
  } finally {
    proxy.stop()
  }
}

/** Checks that supplement the conformance suite. */
const checks: Record<string, (library: Library) => Promise<void>> = {
  async 'an answer from another cluster is rejected'(library) {
    const { store } = await strayed(library)
    await rejects(() => store.acquire(claimOf(), call))
  },

  async 'another cluster refuses a claim before it grants anything'(library) {
    const { store, wrong } = await strayed(library)
    const claim = claimOf()
    await rejects(() => store.acquire(claim, call))
    equal(await wrong.read(claim.election, call), undefined)
  },

  async 'after a group was deleted, a refusal contains the time until a lease may be granted'({ serviceStore }) {
    const url = services[0]?.url ?? ''
    const store = serviceStore({ url })
    const claim = claimOf()
    await store.acquire(claim, call)
    await fetch(`${url}/v1/groups/${claim.election}?force=true`, { method: 'DELETE' })
    const outcome = await store.acquire({ ...claim, attempt: 'another', afterTerm: 1 }, call)
    ok(!outcome.ok && (outcome.retryAfterMs ?? 0) > 1_000)
    deepEqual(outcome.record, undefined)
  },

  async 'a candidate that watches counts as a live member'({ serviceStore }) {
    const url = services[0]?.url ?? ''
    const store = serviceStore({ url })
    const claim = claimOf()
    await store.acquire(claim, call)
    const end = new AbortController()
    const records = store.watch?.(claim.election, { signal: end.signal, holder: 'bob' })[Symbol.asyncIterator]()
    await records?.next()
    const { members } = await store.request({ method: 'GET', path: `/v1/groups/${claim.election}/members` }, call)
    end.abort()
    const shown = (members as { node_id: string; live: boolean }[]).map(({ node_id, live }) => `${node_id} ${live}`)
    deepEqual(shown.toSorted(), ['ada true', 'bob true'])
  },

  async 'the calls to addresses that hang share one deadline'({ serviceStore }) {
    const url = [await silent(), await silent(), await silent()]
    const startedMs = performance.now()
    await rejects(() => serviceStore({ url }).read('any', soon))
    ok(performance.now() - startedMs < 2 * soon.timeoutMs)
  },
}

/** An address that accepts connections and never answers. */
async function silent(): Promise<string> {
  const sockets: Socket[] = []
  const server = createServer((socket) => void sockets.push(socket.on('error', () => undefined))).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function find(name: string, library: Library): () => Promise<void> {
  const check = checks[name]
  if (check) return () => check(library)
  const makeStore = () => ({
    store: library.serviceStore({ url: services[0]?.url ?? '' }),
    keepsPromises: true,
    mostTermsAhead: 2 ** 32,
  })
  const run = storeConformance(makeStore, { patienceMs: 2_000 }).find((one) => one.name === name)?.run
  if (!run) throw new Error(`There is no check named "${name}".`)
  return run
}

test.for(serviceMutations.map((mutation) => [mutation.name, mutation] as const))(
  'a real service detects the service store mutant: %s',
  async ([, mutation]) => {
    const { broken } = await loadMutant<{ broken: Library }>(mutation, { broken: 'stores/service/index.ts' })
    expect(await passes(find(mutation.caughtBy, sound))).toBe(true)
    expect(await passes(find(mutation.caughtBy, broken))).toBe(false)
  },
)
