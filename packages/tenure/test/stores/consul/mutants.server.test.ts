import { AssertionError } from 'node:assert'
import { expect, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { consul, removeKeys } from '../../../../../test/servers/consul.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { checks, type Scene } from './checks.ts'
import { consulMutations } from './mutants.ts'

/** Finds a check or a conformance case. The library itself passes both in another file. */
function find(name: string, scene: Scene): () => Promise<void> {
  const check = checks[name]
  if (check) return () => check(scene)
  const remove = (election: string) => removeKeys(scene, `tenure/${encodeURIComponent(election)}/record`)
  const cases = storeConformance(() => ({ store: scene.open(), open: scene.open, remove }), { leaseDurationMs: 1_000 })
  const run = cases.find((one) => one.name === name)?.run
  if (!run) throw new Error(`There is no check "${name}".`)
  return run
}

/** Only a failed assertion counts: a mutant that breaks in another way proves nothing about the check. */
export async function notices(run: () => Promise<void>): Promise<boolean> {
  try {
    await run()
    return false
  } catch (error) {
    if (error instanceof AssertionError) return true
    throw error
  }
}

describeWith(consul, 'mutants of consulStore', (server) => {
  test.for(consulMutations)('the checks catch the mutant: $name', async (mutation) => {
    const { leases } = await loadMutant<{ leases: typeof import('../../../src/stores/consul/index.ts') }>(mutation, {
      leases: 'stores/consul/index.ts',
    })
    const { url } = server()
    const scene: Scene = { url, open: (options) => leases.consulStore({ endpoints: url, ...options }) }
    expect(await notices(find(mutation.caughtBy, scene))).toBe(true)
  })
})
