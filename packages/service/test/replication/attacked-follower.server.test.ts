/**
 * Tests that clients keep renewing through every replica while another client takes as much capacity as it can get from
 * one of three replicas.
 */
import { test } from 'vitest'
import { etcd } from '../../../../test/servers/etcd.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { expectUnaffected } from '../expect-unaffected.ts'
import { measure, type Attack, type Target } from '../flood-scene.ts'

/** The attacks that used to have the largest effect. */
const worst: readonly (readonly [Attack, Target])[] = [
  ['members', 'follower'],
  ['polls', 'follower'],
  ['pipelined', 'follower'],
  ['anonymous, new connections', 'active'],
]

describeWith(etcd, 'three replicas', (server) => {
  test.each(worst)(
    'honest clients keep their leases while another client attacks replicas with heaps of 256 MB by "%s" on the %s replica',
    { timeout: 180_000 },
    async (attack, target) => {
      const store = `etcd://127.0.0.1:${server().port}/${target}-${attack.replaceAll(/\W+/g, '-')}`
      const { metrics: _, ...seen } = await measure(attack, { forMs: 4_000, heapMb: 256, replicas: { store, target } })
      console.info(seen)
      expectUnaffected(seen)
    },
  )
})
