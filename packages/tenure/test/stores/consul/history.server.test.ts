/** A server whose data was replaced, so that its indexes repeat. */
import { AssertionError, equal } from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { consul } from '../../../../../test/servers/consul.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { start } from '../../../../../test/servers/server.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import * as sound from '../../../src/stores/consul/index.ts'
import { claimOf, granted } from '../../clients/etcd/checks.ts'
import { fillUpTo } from './checks.ts'
import { consulHistoryMutations } from './mutants.ts'

type Library = Pick<typeof sound, 'consulStore'>

const callOf = () => ({ signal: new AbortController().signal, timeoutMs: 10_000 })
const election = 'x'
/** Above the indexes that a server uses while it starts. */
const wantedIndex = 200

/** A store that has granted a lease, and one on a server whose data is new, with a lease of the same index. */
async function openScene({ consulStore }: Library) {
  const server = await start(consul)
  onTestFinished(() => server.stop())
  const open = () => consulStore({ endpoints: server.url })
  const indexOf = (version: string) => Number.parseInt(version, 10)
  await fillUpTo(server, wantedIndex)
  const standby = open()
  const before = granted(await open().acquire(claimOf({ election, holder: 'A' }), callOf()))
  await standby.read(election, callOf())
  // Consul itself writes as well, so the index may be missed.
  for (let tries = 0; tries < 10; tries++) {
    await server.kill('SIGKILL')
    rmSync(join(server.directory, 'data'), { recursive: true })
    await server.start()
    await fillUpTo(server, indexOf(before.version) - 1)
    const after = granted(await open().acquire(claimOf({ election, holder: 'C' }), callOf()))
    if (indexOf(after.version) === indexOf(before.version)) return { open, standby, before, after }
  }
  throw new Error('no lease got the index of the earlier one')
}

const checks: Record<string, (library: Library) => Promise<void>> = {
  async 'a takeover is refused when the expired version belongs to another history'(library) {
    const { open, before, after } = await openScene(library)
    const claim = claimOf({ election, holder: 'B', afterTerm: 1, expiredVersion: before.version })
    equal((await open().acquire(claim, callOf())).ok, false)
    equal((await open().read(election, callOf()))?.attempt, after.attempt)
  },
  async 'a takeover is refused when the candidate saw another lease at the same index'(library) {
    const { open, standby, before, after } = await openScene(library)
    const claim = claimOf({ election, holder: 'B', afterTerm: 1, expiredVersion: before.version })
    equal((await standby.acquire(claim, callOf())).ok, false)
    equal((await open().read(election, callOf()))?.attempt, after.attempt)
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

describeWithPrograms([programs.consul], 'consulStore on a server whose data was wiped', () => {
  test.for(Object.keys(checks))('%s', async (name) => checks[name]?.(sound))

  test.for(consulHistoryMutations)('the checks catch the mutant: $name', async (mutation) => {
    const check = checks[mutation.caughtBy]
    if (!check) throw new Error(`There is no check "${mutation.caughtBy}".`)
    const { leases } = await loadMutant<{ leases: typeof sound }>(mutation, { leases: 'stores/consul/index.ts' })
    expect(await passes(() => check(leases))).toBe(false)
  })
})
