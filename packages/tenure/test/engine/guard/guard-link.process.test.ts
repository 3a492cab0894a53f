import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const isLinux = process.platform === 'linux'

/** Runs a scene of electors.mjs in a new process. Resolves to the message that the process sends. */
async function play(scene: string, descriptors = 4_096): Promise<unknown> {
  const program = join(import.meta.dirname, 'electors.mjs')
  const child = spawn('sh', ['-c', `ulimit -n ${descriptors}; exec "$@"`, 'sh', process.execPath, program, scene], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const [answer] = await Promise.race([once(child, 'message'), once(child, 'exit').then(() => ['the process ended'])])
  return answer
}

test.runIf(isLinux)('a process that cannot start a guard leads without one', { timeout: 60_000 }, async () => {
  expect(await play('no free descriptor', 64)).toEqual({ leads: true, releaseOnCrash: 'unarmed' })
})

test.runIf(isLinux)('every elector leads when 500 register before the guard reads', { timeout: 60_000 }, async () => {
  expect(await play('many electors at once')).toEqual({ leading: 500 })
})

test.runIf(isLinux)('every elector leads while the guard is paused', { timeout: 60_000 }, async () => {
  expect(await play('a paused guard')).toEqual({ leading: 1_500, releaseOnCrash: 'unarmed' })
})

test.runIf(isLinux)('the guard ends after a stop that leaves the lease to expire', { timeout: 60_000 }, async () => {
  expect(await play('a stop without a release')).toEqual({ before: 1, after: 0 })
})
