import { test } from 'vitest'
import { runFaults } from './run-faults.ts'
import { createUsers } from '../servers/etcd-users.ts'
import { etcd36, putKey, removeKeys, setWallClock, withSettings } from '../servers/etcd.ts'
import { describeWith } from '../servers/suite.ts'

const election = 'jobs'
const record = `tenure/${election}/record`

// Passwords are checked repeatedly here, and the default cost would make each check slow.
describeWith(withSettings(etcd36, { 'bcrypt-cost': '4' }), 'a fleet on etcd', (server) => {
  const name = 'a fleet has one leader at a time, whatever happens to the server, its data, and the network'
  test(name, { timeout: 180_000 }, async () => {
    const { asRoot, setPassword } = await createUsers(server(), 'right')
    await runFaults(
      {
        ...server(),
        urlAt: (port) => `etcd://tenure:right@127.0.0.1:${port}`,
        removeRecord: async () => removeKeys(await asRoot(), record),
        damageRecord: async () => putKey(await asRoot(), record, 'not a record'),
        wipe: async () => removeKeys(await asRoot(), 'tenure/', 'tenure0'),
        lockOut: () => setPassword('another'),
        letIn: () => setPassword('right'),
        setClock: (seconds) => setWallClock(server(), seconds),
      },
      { election },
    )
  })
})
