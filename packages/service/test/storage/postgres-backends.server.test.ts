import { expect, test, vi } from 'vitest'
import { freePort } from '../../../../test/servers/free-port.ts'
import { observeOutage } from '../../../../test/servers/count-backends.ts'
import { openPair } from '../../../../test/servers/postgres-pair.ts'
import { postgres } from '../../../../test/servers/postgres.ts'
import { describeWithPrograms } from '../../../../test/servers/suite.ts'
import { ServiceProcess } from '../disk/service-process.ts'
import { newTable } from './postgres-storage-fixture.ts'

const outageMs = 20_000

describeWithPrograms([postgres.program], 'three replicas on PostgreSQL', () => {
  test('three replicas keep at most 15 backends while the standby is away, and other programs get connections', async () => {
    const { primary, admin, link, settle, follow, waitUntilSynchronous } = await openPair()
    await follow()
    await settle('standby')
    await waitUntilSynchronous()
    const directory = `${primary.url}?table=${newTable()}`
    const start = async () => ServiceProcess.start({ directory, advertise: `http://127.0.0.1:${await freePort()}` })
    const replicas = [await start(), await start(), await start()]
    const campaign = (replica: ServiceProcess, group: string) =>
      replica.ask('POST', `/v1/groups/${group}/campaign`, { node_id: 'a', lease_ttl_ms: 5_000 }, { timeoutMs: 5_000 })
    const isServed = async () => (await campaign(replicas[0]!, 'first'))?.status === 200
    await vi.waitUntil(isServed, { timeout: 30_000 })

    link.set('hold')
    const over = new AbortController()
    // Clients keep sending requests that must be written.
    const clients = replicas.map(async (replica, index) => {
      for (let tries = 0; !over.signal.aborted; tries++) {
        await campaign(replica, `group-${index}-${tries}`)
        await new Promise<void>((resolve) => void setTimeout(resolve, 200))
      }
    })
    const { mostBackends, tried, refused } = await observeOutage(admin, primary.url, outageMs)
    over.abort()
    await Promise.all(clients)
    expect(refused).toBe(0)
    expect(tried).toBeGreaterThan(5)
    expect(mostBackends).toBeLessThanOrEqual(15)

    link.set('pass')
    await vi.waitUntil(isServed, { timeout: 30_000 })
  }, 180_000)
})
