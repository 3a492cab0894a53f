/** A server whose history was replaced: revisions repeat under the same cluster id. */
import { AssertionError, equal, rejects } from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { etcd } from '../../../../../test/servers/etcd.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { start } from '../../../../../test/servers/server.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { LeaseRecord } from '../../../src/engine/lease-store.ts'
import * as sound from '../../../src/stores/etcd/index.ts'
import { claimOf, granted } from '../../clients/etcd/checks.ts'
import { etcdHistoryMutations } from './mutants.ts'

type Library = Pick<typeof sound, 'etcdStore'>

const callOf = () => ({ signal: new AbortController().signal, timeoutMs: 10_000 })
const election = 'x'

async function openScene({ etcdStore }: Library) {
  const server = await start(etcd)
  onTestFinished(() => server.stop())
  const open = () => etcdStore({ endpoints: server.url })
  /** Returns the record after this many renewals. Each write has its own revision. */
  const written = async (renewals: number, holder: string) => {
    const store = open()
    let record = granted(await store.acquire(claimOf({ election, holder }), callOf()))
    for (let count = 0; count < renewals; count++) record = granted(await store.renew(held(record), callOf()))
    return { store, record }
  }
  const wipe = async () => {
    await server.kill('SIGKILL')
    rmSync(join(server.directory, 'data'), { recursive: true })
    await server.start()
  }
  return { open, written, wipe }
}

const leading = async (store: ReturnType<Library['etcdStore']>, { version }: LeaseRecord) =>
  equal((await store.read(election, callOf()))?.version, version)

const checks: Record<string, (library: Library) => Promise<void>> = {
  async 'a takeover is refused when the expired version belongs to another history'(library) {
    const { open, written, wipe } = await openScene(library)
    const before = await written(2, 'A')
    await wipe()
    const after = await written(2, 'C')
    const claim = claimOf({ election, holder: 'B', afterTerm: 1, expiredVersion: before.record.version })
    equal((await open().acquire(claim, callOf())).ok, false)
    await leading(open(), after.record)
  },
  async 'a takeover is refused when the candidate saw another lease released at the same revision'(library) {
    const { open, written, wipe } = await openScene(library)
    const before = await written(1, 'A')
    const standby = open()
    granted(await before.store.release(held(before.record), callOf()))
    await standby.read(election, callOf())
    await wipe()
    const after = await written(2, 'C')
    const claim = claimOf({ election, holder: 'B', afterTerm: 1 })
    equal((await standby.acquire(claim, callOf())).ok, false)
    await leading(open(), after.record)
  },
  async 'calls are rejected when the history of the server ends before a revision that was already seen'(library) {
    const { open, written, wipe } = await openScene(library)
    const before = await written(3, 'A')
    const standby = open()
    await standby.read(election, callOf())
    await wipe()
    for (const store of [before.store, standby]) {
      const claim = claimOf({ election, holder: 'B' })
      await rejects(store.acquire(claim, callOf()), { code: 'WRONG_CLUSTER' })
      await rejects(store.read(election, callOf()), { code: 'WRONG_CLUSTER', message: /history/ })
    }
  },
}

async function passes(check: () => Promise<void>): Promise<boolean> {
  try {
    await check()
    return true
  } catch (error) {
    if (error instanceof AssertionError) return false
    throw error
  }
}

describeWithPrograms([programs.etcd], 'etcdStore on a server whose data was wiped', () => {
  test.for(Object.keys(checks))('%s', async (name) => checks[name]?.(sound))

  test.for(etcdHistoryMutations)('the checks catch the mutant: $name', async (mutation) => {
    const check = checks[mutation.caughtBy]
    if (!check) throw new Error(`There is no check "${mutation.caughtBy}".`)
    const { leases } = await loadMutant<{ leases: typeof sound }>(mutation, { leases: 'stores/etcd/index.ts' })
    expect(await passes(() => check(leases))).toBe(false)
  })
})
