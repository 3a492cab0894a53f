/** A process that is PID 1 of its container, or the child of PID 1. */
import { spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { redis } from '../../../../../test/servers/redis.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { endsWithContainer } from '../../../src/engine/guard/guard-link.ts'
import { newElection } from './guarded-process.ts'

const program = join(import.meta.dirname, 'leader.mjs')
const container = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc']
const hasNamespaces = spawnSync(container[0] ?? '', [...container.slice(1), 'true']).status === 0
const warning = 'this process or its parent is PID 1 of its container'

test.each([
  [1, 0, 'pid:[4026532178]', true],
  [7, 1, 'pid:[4026532178]', true],
  [7, 2, 'pid:[4026532178]', false],
  // A process under an init of the machine, such as systemd.
  [700, 1, 'pid:[4026531836]', false],
])('process %i with the parent %i in the namespace %s ends with its container: %s', (pid, ppid, namespace, ends) => {
  expect(endsWithContainer({ pid, ppid }, namespace)).toBe(ends)
})

describeWith(redis, 'the warning about PID 1', (server) => {
  /** Returns the output of a process with two electors before it leads. */
  const printed = async (within: readonly string[], env: Record<string, string> = {}, more: object = {}) => {
    const options = { url: server().url, elections: [newElection(), newElection()], logs: true, ...more }
    const [file, ...args] = [...within, process.execPath, program, JSON.stringify(options)]
    const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], env: { ...process.env, ...env } })
    onTestFinished(() => void child.kill('SIGKILL'))
    let text = ''
    child.stderr?.setEncoding('utf8').on('data', (part: string) => (text += part))
    const leads = vi.fn<() => void>()
    child.on('message', leads)
    await vi.waitFor(() => expect(leads).toHaveBeenCalled(), { timeout: 20_000 })
    return text
  }
  const counted = (text: string) => text.split(warning).length - 1

  test.runIf(hasNamespaces)('a process that is PID 1 logs once that its guard would end with it', async () => {
    expect(counted(await printed(container))).toBe(1)
  })

  test.runIf(hasNamespaces)('a child of PID 1 logs once that its guard would end with it', async () => {
    expect(counted(await printed([...container, 'sh', '-c', '"$@"; true', 'sh']))).toBe(1)
  })

  test.runIf(hasNamespaces)('a process with the guard of another container logs no warning', async () => {
    expect(counted(await printed(container, { TENURE_GUARD: '/nonexistent/guard.sock' }))).toBe(0)
  })

  test.runIf(hasNamespaces)('a process without a log logs no warning', async () => {
    expect(counted(await printed(container, {}, { logs: false }))).toBe(0)
  })

  test('a process outside a container logs no warning', async () => {
    expect(counted(await printed([]))).toBe(0)
  })
})
