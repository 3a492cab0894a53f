/** Checks of the relay and its mutants. They create orders of events that are too rare in simulated clusters. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import type { LeaseStore } from 'tenure'
import type { MemoryResources } from '../../tenure/src/multicluster/memory-resources.ts'
import type { Resources } from '../../tenure/src/multicluster/resources.ts'
import { fakeClock } from '../../testing/src/fakes/fake-clock.ts'
import type { Relay } from '../src/relay/relay.ts'
import { acquire, call, election, key, oneCluster, quietStore } from './one-cluster.ts'

/** The relay, or a mutant of it. */
interface Library {
  readonly Relay: typeof Relay
}

/** Each check rejects with an AssertionError if the statement in its name does not hold. */
export const relayChecks: Readonly<Record<string, (library: Library) => Promise<void>>> = {
  async 'a recreated resource is served when a read of the deleted one is answered late'(library) {
    for (const carriedOut of ['before the deletion', 'between the two', 'after the creation']) {
      const scene = sceneOf(library)
      const answer = gate()
      let conflicts = 1
      scene.start({
        patchStatus: async (...args) => (conflicts-- > 0 ? undefined : scene.memory.patchStatus(...args)),
        async get(...args) {
          if (carriedOut === 'before the deletion') return answer.pass(await scene.memory.get(...args))
          await answer.pass(undefined)
          return carriedOut === 'between the two' ? undefined : scene.memory.get(...args)
        },
      })
      const first = await scene.put({ a: acquire('first') })
      await scene.clock.advance(100)
      ok(answer.isWaited)
      await scene.recreate(first?.uid)
      answer.open()
      await scene.clock.advance(1_000)
      equal((await scene.shown())?.answers['a']?.id, 'second')
    }
  },

  async 'a recreated resource is served when a write to the deleted one is answered late'(library) {
    const scene = sceneOf(library)
    const answer = gate()
    scene.start({
      async patchStatus(of, patch, ...args) {
        const written = await scene.memory.patchStatus(of, patch, ...args)
        return patch.answers ? answer.pass(written) : written
      },
    })
    const first = await scene.put({ a: acquire('first') })
    await scene.clock.advance(100)
    equal((await scene.shown())?.answers['a']?.id, 'first')
    await scene.recreate(first?.uid)
    answer.open()
    await scene.clock.advance(1_000)
    equal((await scene.shown())?.answers['a']?.id, 'second')
  },

  async 'a request is served that follows the status of an earlier one'(library) {
    const scene = sceneOf(library)
    scene.start({})
    for (const id of ['first', 'second', 'third']) {
      await scene.put({ a: acquire(id, { afterTerm: 1 }) })
      await scene.clock.advance(1_000)
      equal((await scene.shown())?.answers['a']?.id, id)
    }
  },

  async 'a recreated resource is served when the watch reports the earlier deletion twice'(library) {
    const scene = sceneOf(library)
    scene.start({
      async *watch(...args) {
        let deleted
        for await (const change of scene.memory.watch(...args)) {
          yield change
          if (change.type === 'deleted') deleted = change
          else if (deleted) yield deleted
        }
      },
    })
    await scene.put({ a: acquire('first') })
    await scene.clock.advance(100)
    scene.memory.delete(key)
    await scene.put({ a: acquire('second', { afterTerm: 1 }) })
    await scene.clock.advance(1_000)
    equal((await scene.shown())?.answers['a']?.id, 'second')
  },

  async 'a relay that starts after the global record was deleted waits for the lease of the deleted record'(library) {
    for (const leaseDurationSeconds of [60, undefined]) {
      const scene = sceneOf(library)
      const claim = { holder: 'west/b', attempt: 'b1', leaseDurationMs: 60_000, afterTerm: 0, metadata: {} }
      const { record } = await scene.store.acquire({ election, ...claim }, call)
      // Another relay of this cluster saw the deletion and wrote it into the status before that relay was replaced.
      const resource = await scene.put({})
      ok(resource && record)
      scene.server.delete(election)
      const deleted = { term: record.term, leader: '', record: null, leaseDurationSeconds }
      await scene.memory.patchStatus(resource, deleted, undefined, call)
      scene.start({})
      // Without a duration in the status, the relay knows only the duration of its own candidates.
      const heldForMs = (leaseDurationSeconds ?? 15) * 1_000
      for (let passedMs = 0; passedMs < heldForMs - 1_000; passedMs += 3_000) {
        await scene.put({ a: acquire(`at-${passedMs}`, { afterTerm: record.term }) })
        await scene.clock.advance(Math.min(3_000, heldForMs - 1_000 - passedMs))
      }
      equal((await scene.store.read(election, call))?.holder, undefined)
    }
  },

  async 'a late answer to a read does not show a released lease as held again'(library) {
    const scene = sceneOf(library)
    const answer = gate()
    let isLate = false
    const claim = { election, holder: 'west/b', attempt: 'b', leaseDurationMs: 60_000, afterTerm: 0, metadata: {} }
    const granted = await scene.store.acquire(claim, call)
    scene.start({}, { read: async (...args) => latched(isLate, answer, await scene.store.read(...args)) })
    await scene.put({ a: acquire('refused', { leaseDurationMs: 60_000 }) })
    await scene.clock.advance(100)
    equal((await scene.shown())?.leader, 'west/b')
    isLate = true
    await scene.clock.advance(12_000)
    ok(answer.isWaited && granted.ok)
    await scene.store.release({ ...claim, term: 1, version: granted.record.version }, call)
    // Another relay of the same cluster shows the release. It then stops, because two relays that disagree would
    // overwrite each other forever.
    const other = scene.start({})
    await scene.clock.advance(3_000)
    equal((await scene.shown())?.record?.released, true)
    await other.stop()
    isLate = false
    answer.open()
    await scene.clock.advance(100)
    const { leader, record } = (await scene.shown()) ?? {}
    deepEqual([leader, record?.released], ['', true])
  },

  async 'a confirmation that was queued while the machine slept is discarded'(library) {
    const scene = sceneOf(library)
    const answer = gate()
    const other = { ...key, name: 'other' }
    scene.start({
      async patchStatus(of, ...args) {
        if (of.name === other.name) await answer.pass(undefined)
        return scene.memory.patchStatus(of, ...args)
      },
    })
    await scene.memory.create(other, { requests: { a: acquire('other') } }, undefined, call)
    await scene.clock.advance(100)
    ok(answer.isWaited)
    const beat = await scene.beat('a')
    await scene.clock.advance(100)
    const first = (await scene.store.read(election, call))?.version
    ok(first)
    scene.clock.sleep(25_000)
    answer.open()
    await scene.clock.advance(1_000)
    const { observedGeneration, record } = (await scene.shown()) ?? {}
    equal(observedGeneration, beat?.generation)
    notEqual(record?.version, first)
  },

  async 'a confirmation is computed again if its write had to wait for others'(library) {
    const scene = sceneOf(library)
    const answer = gate()
    const other = { ...key, name: 'other' }
    const confirmed: (string | null | undefined)[] = []
    scene.start({
      async patchStatus(of, patch, ...args) {
        if (of.name === other.name) await answer.pass(undefined)
        else if (patch.observedGeneration !== undefined) confirmed.push(patch.record?.version)
        return scene.memory.patchStatus(of, patch, ...args)
      },
    })
    await scene.beat('a')
    await scene.clock.advance(100)
    await scene.memory.create(other, { requests: { a: acquire('other') } }, undefined, call)
    await scene.clock.advance(100)
    ok(answer.isWaited)
    await scene.beat('a')
    await scene.clock.advance(100)
    const waiting = (await scene.store.read(election, call))?.version
    scene.clock.sleep(25_000)
    answer.open()
    await scene.clock.advance(1_000)
    equal(confirmed.length, 2)
    ok(!confirmed.includes(waiting))
  },

  async 'the write of a confirmation times out a tenth of the lease after its call was sent'(library) {
    const scene = sceneOf(library)
    const signals: AbortSignal[] = []
    scene.start({
      async patchStatus(of, patch, over, { signal }) {
        if (patch.observedGeneration === undefined) return scene.memory.patchStatus(of, patch, over, call)
        signals.push(signal)
        return new Promise<never>(() => {})
      },
    })
    await scene.beat('a')
    await scene.clock.advance(1_400)
    deepEqual(
      signals.map(({ aborted }) => aborted),
      [false],
    )
    await scene.clock.advance(200)
    equal(signals[0]?.aborted, true)
  },
}

/** A cluster in virtual time. Its relays write one status at a time. */
function sceneOf(library: Library) {
  const clock = fakeClock()
  const { server, store } = quietStore(clock)
  const cluster = oneCluster(clock, store, library)
  const { memory, put } = cluster
  return {
    ...cluster,
    clock,
    server,
    store,
    start: (resources: Partial<Resources>, change: Partial<LeaseStore> = {}) =>
      cluster.start({ resources: { ...memory, ...resources }, store: { ...store, ...change }, writeLimit: 1 }),
    /** Replaces the resource while the relay has no watch open. */
    async recreate(uid: string | undefined) {
      endWatches(memory)
      memory.delete(key)
      const second = await put({ a: acquire('second', { afterTerm: 1 }) })
      notEqual(second?.uid, uid)
      await clock.advance(1_000)
    },
  }
}

function endWatches(memory: MemoryResources): void {
  memory.restore(memory.backup())
}

/** Holds answers back until the test opens it. */
function gate() {
  const waiting: (() => void)[] = []
  let isOpen = false
  return {
    get isWaited() {
      return waiting.length > 0
    },
    async pass<T>(answer: T): Promise<T> {
      if (!isOpen) await new Promise<void>((resolve) => waiting.push(resolve))
      return answer
    },
    open() {
      isOpen = true
      for (const resume of waiting) resume()
    },
  }
}

function latched<T>(isLate: boolean, { pass }: ReturnType<typeof gate>, answer: T): Promise<T> | T {
  return isLate ? pass(answer) : answer
}
