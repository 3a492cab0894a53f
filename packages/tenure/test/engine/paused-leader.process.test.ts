import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { temporaryDirectory } from '../stores/file/fixtures.ts'

interface Told {
  readonly type: 'leads' | 'round' | 'ended'
  readonly kind?: string
  readonly at?: string
  readonly reason?: string
}

/** A process that leads or waits. It ends with the test. */
function startLeader(directory: string, identity: string, url: string) {
  const child = fork(join(import.meta.dirname, 'paused-leader.mjs'), [directory, identity, url], { execArgv: [] })
  onTestFinished(async () => {
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  })
  const told: Told[] = []
  child.on('message', (message) => told.push(message as Told))
  return { child, has: (type: Told['type']) => told.find((one) => one.type === type), told }
}

/** Answers each request after a short delay, like a round of work. */
async function startServer(): Promise<string> {
  const server = createServer((_, response) => {
    void sleep(50).then(() => response.end('done'))
  }).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const kinds = ['timers/promises', 'fetch', 'events.once', 'AbortSignal.any']
const patience = { timeout: 30_000, interval: 20 }

test('a leader that was paused for longer than its lease starts no more rounds', async () => {
  const directory = await temporaryDirectory()
  const url = await startServer()
  const first = startLeader(directory, 'first', url)
  const roundsOf = (kind: string) => first.told.filter((one) => one.kind === kind)
  for (const kind of kinds) await vi.waitFor(() => expect(roundsOf(kind).length).toBeGreaterThan(2), patience)
  const second = startLeader(directory, 'second', url)
  first.child.kill('SIGSTOP')
  await vi.waitFor(() => expect(second.has('leads')).toBeDefined(), patience)
  expect(first.has('ended')).toBeUndefined()
  const resumedAt = process.hrtime.bigint()
  first.child.kill('SIGCONT')
  await vi.waitFor(() => expect(first.has('ended')).toBeDefined(), patience)
  expect(first.has('ended')?.reason).toBe('expired')
  expect(second.has('ended')).toBeUndefined()
  expect(first.told.filter(({ at }) => at !== undefined && BigInt(at) > resumedAt)).toEqual([])
})
