/** Replicas on one storage, in virtual time. */
import { memoryStore, type LeaseStore } from 'tenure'
import { fakeClock, type FakeClock } from '@tenure/testing'
import { onTestFinished } from 'vitest'
import * as replicas from '../../src/replication/replica.ts'
import type { LocalGroups } from '../../src/groups/local-groups.ts'
import { MemoryStorage } from '../storage/memory-storage.ts'
import { activeStore } from '../../src/storage/active-store.ts'

export const policy = { minTtlMs: 1_000, maxTtlMs: 60_000 }

export interface Scene {
  readonly clock: FakeClock
  readonly storage: MemoryStorage
  readonly leases: LeaseStore & { delete(election: string): void }
  /** The events of all replicas, in order. */
  readonly events: string[]
  start(replica: string, more?: Partial<replicas.ReplicaOptions>): replicas.Replica
}

/** `modules` are those of the service, or of a mutant. */
export function open(storage = new MemoryStorage(), modules = replicas): Scene {
  const clock = fakeClock()
  const leases = memoryStore({ clock })
  const events: string[] = []
  return {
    clock,
    storage,
    leases,
    events,
    start(name, more = {}) {
      const replica = new modules.Replica({
        storage,
        leases: activeStore(leases, storage),
        clock,
        address: `https://${name}.test`,
        replica: name,
        version: '1',
        groups: { policy, implicitGroups: true, maxGroups: 1_000, maxMembersPerGroup: 3, memberTtlMs: 60_000 },
        onEvent: (event) => void events.push([name, event.type, 'why' in event && event.why].filter(Boolean).join(' ')),
        ...more,
      })
      onTestFinished(async () => {
        const stopped = replica.stop()
        await clock.advance(60_000)
        await stopped
      })
      replica.start()
      return replica
    },
  }
}

/** The groups of a replica, which must be active. */
export function groupsOf(replica: replicas.Replica): LocalGroups {
  const place = replica.now()
  if (place.kind !== 'local') throw new Error(`The replica is not active: ${place.kind}.`)
  return place.groups
}

const { signal } = new AbortController()

export function campaign(groups: LocalGroups, nodeId: string, more: { waitMs?: number; groupId?: string } = {}) {
  const claim = { groupId: 'jobs', nodeId, attempt: nodeId, attemptIsOnce: false, ttlMs: 5_000, metadata: '{}' }
  return groups.campaign({ ...claim, waitMs: 0, ...more }, signal)
}

export const unavailable = { code: 'BACKEND_UNAVAILABLE' }
