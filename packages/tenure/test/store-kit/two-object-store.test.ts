import { expect, test } from 'vitest'
import { systemClock } from '../../src/common/clock.ts'
import type { Outcome } from '../../src/engine/lease-store.ts'
import { twoObjectStore, type ObjectKind, type ObjectBackend } from '../../src/store-kit/two-object-store.ts'
import { call } from '../promise-outcome.ts'

/** Objects in memory with compare-and-swap, and a hook for the actions of another process in between. */
function memoryPlace() {
  const objects = new Map<string, { value: string; version: string }>()
  const hook: { onRecordRemoved?: () => Promise<void> } = {}
  let versions = 0
  const nameOf = (election: string, kind: ObjectKind) => `${election}/${kind}`
  const isAt = (election: string, kind: ObjectKind, version: string | undefined) =>
    objects.get(nameOf(election, kind))?.version === version
  const place: ObjectBackend = {
    nameOf,
    get: async (election, kind) => objects.get(nameOf(election, kind)),
    async put(election, kind, value, over) {
      if (!isAt(election, kind, over)) return undefined
      versions += 1
      objects.set(nameOf(election, kind), { value, version: `v${versions}` })
      return `v${versions}`
    },
    async remove(election, kind, version) {
      if (!isAt(election, kind, version)) return false
      objects.delete(nameOf(election, kind))
      if (kind === 'record') await hook.onRecordRemoved?.()
      return true
    },
    list: async () => ({ values: [] }),
  }
  return { place, objects, hook }
}

const claimOf = (attempt: string) => ({
  election: 'e',
  holder: attempt,
  attempt,
  leaseDurationMs: 15_000,
  afterTerm: 0,
  metadata: {},
  writeId: attempt,
})

function granted(outcome: Outcome | undefined) {
  if (!outcome?.ok) throw new Error('it was refused')
  return outcome.record
}

test('forget with the term keeps the term of a grant made right after the record was removed', async () => {
  const { place, objects, hook } = memoryPlace()
  const open = () => twoObjectStore(place, systemClock)
  const store = open()
  const { term, version } = granted(await store.acquire(claimOf('a'), call))
  const released = granted(await store.release({ ...claimOf('a'), term, version, writeId: 'released' }, call))
  let next: Outcome | undefined
  hook.onRecordRemoved = async () => {
    next = await open().acquire(claimOf('b'), call)
  }
  await store.forget?.({ election: 'e', version: released.version, withTerm: true }, call)
  expect(granted(next).term).toBe(1)
  // Without its recorded term, deleting the record would let the next candidate get the same term at once.
  objects.delete('e/record')
  expect(await open().acquire(claimOf('c'), call)).toMatchObject({ ok: false, highestTerm: 1 })
})
