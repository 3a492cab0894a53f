import { beforeAll, afterAll, expect, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { nats, natsClient, type NatsClient } from '../../../../../test/servers/nats.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { keyOf } from '../../../src/stores/nats/keys.ts'
import * as sound from '../../../src/stores/nats/index.ts'
import { checks, type Scene } from './checks.ts'
import { natsMutations } from './mutants.ts'

/** Finds a check or a conformance case. The library itself passes the cases in another file. */
async function find(name: string, scene: Scene): Promise<() => Promise<void>> {
  const own = checks[name]
  if (own) return () => own(scene)
  const kv = await scene.client.bucket('mutants')
  const open = () => scene.natsStore({ kv })
  const remove = (election: string) => kv.delete(keyOf(election, 'record'))
  const cases = storeConformance(() => ({ store: open(), open, remove }), {
    leaseDurationMs: 1_000,
    patienceMs: 20_000,
  })
  const run = cases.find((one) => one.name === name)?.run
  if (!run) throw new Error(`There is no check "${name}".`)
  return run
}

describeWith(nats, 'checks and mutants of natsStore', (server) => {
  let client: NatsClient
  beforeAll(async () => {
    client = await natsClient(server().url)
  })
  afterAll(() => client.close())

  test.for(Object.entries(checks))('%s', ([, check]) => check({ client, natsStore: sound.natsStore }))

  test.for(natsMutations)('the checks catch the mutant: $name', async (mutation) => {
    const { mutant } = await loadMutant<{ mutant: typeof sound }>(mutation, { mutant: 'stores/nats/index.ts' })
    expect(await passes(await find(mutation.caughtBy, { client, natsStore: mutant.natsStore }))).toBe(false)
  })
})
