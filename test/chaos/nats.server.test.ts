import { expect, test } from 'vitest'
import { runFaults } from './run-faults.ts'
import { natsClient, natsConfig, natsWith, reconfigure, setNatsClock } from '../servers/nats.ts'
import { describeWith } from '../servers/suite.ts'

const election = 'jobs'
const key = `${election}.record`
const users = (password: string) => `
  authorization { users: [ { user: admin, password: admin }, { user: tenure, password: "${password}" } ] }`

describeWith(
  natsWith(() => users('right')),
  'a fleet on NATS',
  (server) => {
    const name = 'a fleet has one leader at a time, whatever happens to the server, its data, and the network'
    test(name, { timeout: 180_000 }, async () => {
      const admin = await natsClient(server().url, { user: 'admin', pass: 'admin' })
      const create = () => admin.bucket('leases')
      const setPassword = (password: string) => reconfigure(server(), natsConfig(server(), users(password)))
      let kv = await create()
      await runFaults(
        {
          ...server(),
          urlAt: (port) => `nats://tenure:right@127.0.0.1:${port}/leases`,
          removeRecord: () => kv.delete(key),
          damageRecord: () => kv.put(key, 'not a record'),
          wipe: async () => {
            expect(await kv.destroy()).toBe(true)
            kv = await create()
          },
          lockOut: () => setPassword('another'),
          letIn: () => setPassword('right'),
          setClock: (seconds) => setNatsClock(server(), seconds),
        },
        { election },
      )
      await admin.close()
    })
  },
)
