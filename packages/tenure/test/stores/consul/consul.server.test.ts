import { describe, expect, test } from 'vitest'
import { askConsul, consul, removeKeys } from '../../../../../test/servers/consul.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { consulStore } from '../../../src/stores/consul/index.ts'
import { checks } from './checks.ts'

describeWith(consul, 'consulStore', (server) => {
  const open = () => consulStore({ endpoints: server().url })

  test('Consul lets exactly one of 16 racing writers swap a key', async () => {
    const swap = (index: number, value: string) => askConsul<boolean>(server(), 'PUT', `kv/race?cas=${index}`, value)
    // A swap that writes the value that is already there succeeds and keeps the index, so each value is unique here.
    const race = (index: number) =>
      Promise.all(Array.from({ length: 16 }, (_, racer) => swap(index, `value ${index} ${racer}`)))
    expect((await race(0)).filter(Boolean)).toHaveLength(1)
    const [entry] = await askConsul<{ ModifyIndex: number }[]>(server(), 'GET', 'kv/race?consistent')
    expect((await race(entry?.ModifyIndex ?? 0)).filter(Boolean)).toHaveLength(1)
  })

  describe('consulStore conforms', () => {
    const cases = storeConformance(
      () => ({
        store: open(),
        open,
        remove: (election) => removeKeys(server(), `tenure/${encodeURIComponent(election)}/record`),
      }),
      { leaseDurationMs: 1_000 },
    )
    for (const { name, run } of cases) test.concurrent(name, run)
  })
  for (const [name, check] of Object.entries(checks)) {
    test(name, () => {
      const { url } = server()
      return check({ url, open: (options) => consulStore({ endpoints: url, ...options }) })
    })
  }
})
