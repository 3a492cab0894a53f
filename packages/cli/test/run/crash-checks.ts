/** Cases in which a supervisor must not release, for the built command and for mutants of it. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { onTestFinished, vi } from 'vitest'
import { processEntry, processNamespace } from '@tenure/internal/process-status'
import { openStore } from 'tenure/stores'
import type { Order } from '../../src/run/protocol.ts'
import { ended, released } from './crash-scene.ts'
import { otherUser } from './other-user.ts'
import { runs, scene, signal } from './scene.ts'

let elections = 0

/** Runs a command, kills tenure once the command is running, and returns the processes that are left. */
async function killed(command: string, url: string, words: readonly string[], within: readonly string[] = []) {
  const election = `survivors-${++elections}`
  const on = scene(url)
  const wrapper = on.run(['--ttl', '30s', '--', ...words], { command, within }, election)
  const [, pid] = await vi.waitUntil(() => /^(\d+) runs$/m.exec(wrapper.output.out), { timeout: 25_000 })
  const survivor = Number(pid)
  onTestFinished(() => signal(survivor, 'SIGKILL'))
  const supervisor = wrapper.supervisor()
  const exited = once(wrapper.child, 'exit')
  wrapper.child.kill('SIGKILL')
  await exited
  return { election, supervisor, survivor }
}

export const crashChecks: Readonly<Record<string, (command: string, url: string) => Promise<void>>> = {
  async 'a lease is released when tenure is killed'(command, url) {
    const { election, supervisor } = await killed(command, url, ['sh', '-c', 'echo $$ runs; exec sleep 1000'])
    await ended(supervisor)
    assert.equal(await released(url, election), true)
  },

  async 'a lease is not released while a process that left the session of the command runs'(command, url) {
    // The first process waits, so that the survivor is in its own session before tenure is killed.
    const script = 'setsid sh -c "echo \\$\\$ runs; exec sleep 1000 >/dev/null 2>&1" & exec sleep 1000 >/dev/null 2>&1'
    const { election, supervisor, survivor } = await killed(command, url, ['sh', '-c', script])
    await ended(supervisor)
    assert.equal(runs(survivor), true)
    assert.equal(await released(url, election), false)
  },

  async 'a lease is not released while a process of the command runs that cannot be killed'(command, url) {
    const script = 'echo $$ runs; exec sleep 1000'
    const asOther = ['setpriv', `--reuid=${otherUser.uid}`, '--clear-groups', 'sh', '-c', script]
    // Root without this capability cannot signal other users.
    const { election, supervisor, survivor } = await killed(command, url, asOther, ['setpriv', '--bounding-set=-kill'])
    await delay(2_000)
    assert.equal(runs(survivor), true)
    assert.equal(await released(url, election), false)
    signal(survivor, 'SIGKILL')
    await ended(supervisor)
    assert.equal(await released(url, election), true)
  },

  async 'a lease is not released when the channel to a running wrapper closes'(command, url) {
    const election = `survivors-${++elections}`
    const store = await openStore(url)
    onTestFinished(() => store.close?.())
    const claim = { election, holder: 'a', attempt: 'attempt', leaseDurationMs: 30_000, writeId: 'attempt' }
    const call = { signal: AbortSignal.timeout(10_000), timeoutMs: 10_000 }
    assert.equal((await store.acquire({ ...claim, afterTerm: 0, metadata: {} }, call)).ok, true)
    // This process plays the wrapper.
    const program = join(dirname(command), '../dist/supervisor.js')
    const supervisor = spawn(process.execPath, [program, 'mark', election], {
      detached: true,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc', 'pipe'],
    })
    onTestFinished(() => void supervisor.kill('SIGKILL'))
    await once(supervisor, 'message')
    supervisor.send({ type: 'guard', environment: {} } satisfies Order)
    const pipe = supervisor.stdio[4] as import('node:net').Socket
    const entry = processEntry(process.pid)
    assert.ok(entry && entry !== 'unknown')
    const own = { type: 'process', id: process.pid, startedAt: entry.startedAt, namespace: processNamespace() }
    const fields = { storeUrl: url, afterMs: 0, afterTerm: 0, writeIds: ['attempt'] }
    const { writeId: _, ...named } = claim
    for (const message of [own, { type: 'register', attempt: { ...named, ...fields } }])
      pipe.write(`${JSON.stringify(message)}\n`)
    pipe.end()
    const exited = once(supervisor, 'exit')
    supervisor.disconnect()
    await exited
    assert.equal(await released(url, election), false)
  },
}
