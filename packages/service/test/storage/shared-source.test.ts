/** Tests that shared data is not moved away from a replica that became active in the meantime. */
import { AssertionError, equal, match } from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { Elector, memoryStore, type LeaseStore } from 'tenure'
import { fakeClock } from '@tenure/testing'
import { expect, onTestFinished, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { activeStore } from '../../src/storage/active-store.ts'
import {
  ServerStorage,
  type FoundServer,
  type GroupPage,
  type StorageServer,
  type Swap,
  type SwapAnswer,
} from '../../src/storage/server-storage.ts'
import { SharedSource } from '../../src/storage/shared-source.ts'

/** A server in memory whose swaps wait for a gate. */
class GatedServer implements StorageServer {
  readonly name = 'What is in memory'
  readonly maxBatch = { groups: Infinity, bytes: Infinity }
  gate: Promise<void> = Promise.resolve()
  swaps = 0
  #head: string | undefined

  async find(): Promise<FoundServer> {
    return { head: this.#head, incarnation: 'memory', isSynced: false }
  }

  async begin(head: string): Promise<void> {
    this.#head ??= head
  }

  async swap({ over, head }: Swap): Promise<SwapAnswer> {
    this.swaps += 1
    await this.gate
    if (this.#head !== over) return { swapped: false, head: this.#head }
    this.#head = head
    return { swapped: true }
  }

  async page(): Promise<GroupPage> {
    return { head: this.#head, groups: [] }
  }

  async groups(): Promise<GroupPage> {
    return this.page()
  }

  async batches(): Promise<[]> {
    return []
  }

  async check(): Promise<void> {}

  close(): void {}
}

async function checkLateMark(parts: { readonly SharedSource: typeof SharedSource }): Promise<void> {
  const clock = fakeClock()
  const server = new GatedServer()
  const open = (more = {}) => ServerStorage.open({ server, newId: randomUUID, ...more })
  const leases = memoryStore({ clock })
  const shared = await open()
  let isCutOff = false
  const cut = <T>(call: () => Promise<T>) => (isCutOff ? Promise.reject(new Error('no answer')) : call())
  const ownLeases: LeaseStore = {
    ...leases,
    acquire: (...call) => cut(() => leases.acquire(...call)),
    renew: (...call) => cut(() => leases.renew(...call)),
    release: (...call) => cut(() => leases.release(...call)),
  }
  const storage = await open({ movingTo: 'there' })
  const source = new parts.SharedSource({
    storage,
    leases: activeStore(ownLeases, storage),
    clock,
    identity: 'migration',
  })
  let openGate = () => {}
  server.gate = new Promise((resolve) => (openGate = resolve))
  const outcome = source.retire('there').then(
    () => 'marked',
    (error: Error) => error.message,
  )
  await clock.advance(1_000)
  equal(server.swaps, 1)

  // The mark is in flight when the lease of the migration expires and a replica becomes active.
  isCutOff = true
  const replica = new Elector({ store: activeStore(leases, shared), election: 'active', identity: 'replica', clock })
  onTestFinished(async () => {
    openGate()
    const closed = Promise.all([replica.stop(), source.close()])
    await clock.advance(60_000)
    await closed
  })
  replica.start()
  await clock.advance(60_000)
  equal(replica.isLeader(), true)
  openGate()
  match(await outcome, /^Another replica became active in the meantime/)
}

test('a move stops when a replica became active before the source was marked', () => checkLateMark({ SharedSource }))

const mutation: Mutation = {
  package: 'service',
  file: 'storage/shared-source.ts',
  name: 'the source counts as retired even if another replica became active',
  find: 'if (!leadership.isLeader())',
  replace: 'if (leadership.term < 0)',
}

test(`the check of shared sources catches the mutant "${mutation.name}"`, async () => {
  const { source } = await loadMutant<{ source: typeof import('../../src/storage/shared-source.ts') }>(mutation, {
    source: '../../service/src/storage/shared-source.ts',
  })
  await expect(checkLateMark(source)).rejects.toThrow(AssertionError)
})
