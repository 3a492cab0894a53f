import { test } from 'vitest'
import { runFaults } from './run-faults.ts'
import { consulWithTokens, createToken, managementToken, putKey, removeKeys, setWallClock } from '../servers/consul.ts'
import { describeWith } from '../servers/suite.ts'

const election = 'jobs'
const record = `tenure/${election}/record`
const rules = (policy: string) => `key_prefix "tenure/" { policy = "${policy}" }`

describeWith(consulWithTokens, 'a fleet on Consul', (server) => {
  const name = 'a fleet has one leader at a time, whatever happens to the server, its data, and the network'
  test(name, { timeout: 180_000 }, async () => {
    const at = { url: server().url, token: managementToken }
    const { token, setRules } = await createToken(at, 'tenure', rules('write'))
    await runFaults(
      {
        ...server(),
        urlAt: (port) => `consul://127.0.0.1:${port}`,
        removeRecord: () => removeKeys(at, record),
        damageRecord: () => putKey(at, record, 'not a record'),
        wipe: () => removeKeys(at, 'tenure/', { all: true }),
        lockOut: () => setRules(rules('deny')),
        letIn: () => setRules(rules('write')),
        setClock: (seconds) => setWallClock(server(), seconds),
      },
      { election, env: () => ({ CONSUL_HTTP_TOKEN: token }) },
    )
  })
})
