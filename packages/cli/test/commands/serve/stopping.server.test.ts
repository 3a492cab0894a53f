import { once } from 'node:events'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { faultyDisk } from '../../../../service/test/disk/faulty-disk.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { serve, temporaryFolder } from '../../tenure.ts'

describeWithPrograms([programs.cc], 'a service whose disk hangs', () => {
  test('a service whose disk hangs exits on request, so that it can be restarted', async () => {
    const { child, ended, url } = await serve(join(temporaryFolder(), 'data'), [], {
      env: faultyDisk(),
      more: ['pipe'],
    })
    const disk = child.stdio[3] as Socket
    const heard = once(disk, 'data')
    disk.write('h')
    await heard
    const body = JSON.stringify({ node_id: 'a', lease_ttl_ms: 30_000 })
    const headers = { 'content-type': 'application/json' }
    expect((await fetch(`${url}/v1/groups/jobs/campaign`, { method: 'POST', headers, body })).status).toBe(503)
    child.kill('SIGTERM')
    expect(await ended).toBe('SIGKILL')
  })
})
