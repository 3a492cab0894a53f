import { afterAll, beforeAll, describe, test } from 'vitest'
import { storeConformance } from '../../packages/tenure/src/conformance/index.ts'
import { encodeName } from '../../packages/tenure/src/stores/encode-name.ts'
import { serviceStore } from '../../packages/tenure/src/stores/service.ts'
import type { RunningServer } from '../servers/server.ts'
import { serve } from './serve.ts'

let service: RunningServer
beforeAll(async () => {
  service = await serve()
})
afterAll(() => service.stop())

describe('serviceStore on a real service', () => {
  const open = () => serviceStore({ url: service.url })
  const makeStore = () => ({ store: open(), open, remove: deleteGroup, keepsPromises: true })
  for (const { name, run } of storeConformance(makeStore)) test.concurrent(name, run)
})

/** What an administrator may do to a group that has a leader. */
async function deleteGroup(election: string): Promise<void> {
  const group = encodeName(election, /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/)
  const answer = await fetch(`${service.url}/v1/groups/${group}?force=true`, { method: 'DELETE' })
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
}
