/**
 * Tests that a full disk, which can still be read, ends `tenure run`, instead of making it wait forever (G9). Needs
 * `mount`.
 */
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { mayMount, smallDisk } from '../../../../test/servers/small-disk.ts'
import { scene } from './scene.ts'
import { serve } from '../tenure.ts'

const short = ['--ttl', '1s', '--store-timeout', '1500ms']

describe.skipIf(!mayMount)(`a full disk${mayMount ? '' : ' (skipped: nothing can be mounted here)'}`, () => {
  test('tenure run exits with 69 and advice when the disk of a lease folder is full', async () => {
    const disk = smallDisk()
    const on = scene(`file://${join(disk.directory, 'leases')}`)
    expect(await on.run(['--once', '--', 'true']).ended).toBe(0)
    disk.fill()
    const { ended, output } = on.run([...short, '--', 'true'])
    expect(await ended).toBe(69)
    expect(output.error).toMatch(/can be read, but no write has succeeded for 1500ms\. .*ENOSPC.*Free some space/)
  })

  test('a full disk under the folder of a leader ends its command, and then tenure', async () => {
    const disk = smallDisk()
    const on = scene(`file://${join(disk.directory, 'leases')}`)
    const { ended, output } = on.work(['--ttl', '4s', '--store-timeout', '6s'])
    await on.wrote('begin', 1)
    disk.fill()
    expect(await ended).toBe(69)
    expect(output.error).toMatch(/The command gets SIGTERM.*ENOSPC/s)
  })

  test('tenure run keeps running and leads again in a new term when a full disk has space again in time', async () => {
    const disk = smallDisk()
    const on = scene(`file://${join(disk.directory, 'leases')}`)
    const { output, isOver } = on.work(['--ttl', '4s'])
    await on.wrote('begin', 1)
    disk.fill()
    await vi.waitUntil(() => output.error.includes('The command gets SIGTERM'), { timeout: 20_000 })
    disk.free()
    await on.wrote('begin', 2)
    expect(isOver()).toBe(false)
  })

  test('a full disk under a service ends a candidate that needs a lease, but not a standby', async () => {
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

/** Too large for the free space within the data files. */
const filler = 'x'.repeat(3_000)

/** Fills the reserve that a service keeps on a full disk so that leaders can resign. */
async function useUpReserve(url: string): Promise<void> {
  const body = JSON.stringify({ node_id: 'a', lease_ttl_ms: 60_000, metadata: { filler } })
  const headers = { 'content-type': 'application/json' }
  for (let failures = 0, index = 0; failures < 10; index += 1) {
    const { status } = await fetch(`${url}/v1/groups/filler-${index}/campaign`, { method: 'POST', headers, body })
    if (status === 503) failures += 1
  }
}
