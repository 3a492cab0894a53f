/** A disk that is full can be read, and ends `tenure run`, which used to wait for ever (G9). Needs `mount`. */
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { mayMount, smallDisk } from '../../../../../test/servers/small-disk.ts'
import { scene } from '../../run/scene.ts'
import { serve } from '../../tenure.ts'

const short = ['--ttl', '1s', '--store-timeout', '1500ms']

describe.skipIf(!mayMount)(`a full disk${mayMount ? '' : ' (skipped: nothing can be mounted here)'}`, () => {
  test('under a folder of leases ends it with 69, and says what to do', async () => {
    const disk = smallDisk()
    const on = scene(`file://${join(disk.directory, 'leases')}`)
    expect(await on.run(['--once', '--', 'true']).ended).toBe(0)
    disk.fill()
    const { ended, output } = on.run([...short, '--', 'true'])
    expect(await ended).toBe(69)
    expect(output.error).toMatch(
      /can be read, but nothing could be written to it for 1500ms\. .*ENOSPC.*Free some space/,
    )
  })

  test('under one that leads ends its command, and then tenure', async () => {
    const disk = smallDisk()
    const on = scene(`file://${join(disk.directory, 'leases')}`)
    const { ended, output } = on.work(short)
    await on.wrote('begin', 1)
    disk.fill()
    expect(await ended).toBe(69)
    expect(output.error).toMatch(/The command gets SIGTERM.*ENOSPC/s)
  })

  test('that has space again in time costs no more than the term', async () => {
    const disk = smallDisk()
    const on = scene(`file://${join(disk.directory, 'leases')}`)
    const { output, isOver } = on.work(['--ttl', '1s'])
    await on.wrote('begin', 1)
    disk.fill()
    await vi.waitUntil(() => output.error.includes('The command gets SIGTERM'), { timeout: 20_000 })
    disk.free()
    await on.wrote('begin', 2)
    expect(isOver()).toBe(false)
  })

  test('under a service ends who asks for a lease, and not who waits for a leader', async () => {
    const disk = smallDisk()
    const { url } = await serve(join(disk.directory, 'data'))
    const on = scene(url)
    // Renewals need no space.
    const leader = on.work(['--identity', 'leader', '--ttl', '3s'])
    await on.wrote('begin', 1)
    disk.fill()
    await useUpReserve(url)
    const standby = on.run(['--ttl', '3s', '--store-timeout', '2s', '--', 'true'])
    await vi.waitUntil(() => standby.output.error.includes('leader leads'), { timeout: 20_000 })
    const { ended, output } = on.run(
      ['--ttl', '3s', '--store-timeout', '4s', '--metadata', `filler=${filler}`, '--', 'true'],
      {},
      'other',
    )
    expect(await ended).toBe(69)
    expect(output.error).toMatch(/no write has succeeded for 4s\. .*The data directory cannot be written/)
    expect([standby.isOver(), leader.isOver()]).toEqual([false, false])
  })
})

/** Too large for what is free within the data. */
const filler = 'x'.repeat(3_000)

/** A service has some room left on a full disk, so that leaders can resign. */
async function useUpReserve(url: string): Promise<void> {
  const body = JSON.stringify({ node_id: 'a', lease_ttl_ms: 60_000, metadata: { filler } })
  const headers = { 'content-type': 'application/json' }
  for (let failures = 0, index = 0; failures < 10; index += 1) {
    const { status } = await fetch(`${url}/v1/groups/filler-${index}/campaign`, { method: 'POST', headers, body })
    if (status === 503) failures += 1
  }
}
