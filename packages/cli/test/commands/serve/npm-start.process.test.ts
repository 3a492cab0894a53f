import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { childrenOf, runs, signal } from '../../run/scene.ts'
import { temporaryFolder } from '../../tenure.ts'

/** Returns a process with all its descendants. */
function family(pid: number): number[] {
  return [pid, ...childrenOf(pid).flatMap((child) => family(child))]
}

test.each(['SIGTERM', 'SIGINT'] as const)(
  'npm start ends together with the service on %s, so the service does not keep running without npm',
  async (name) => {
    const child = spawn(
      'npm',
      ['start', '--ignore-scripts', '--', '--data', temporaryFolder(), '--listen', '127.0.0.1:0'],
      { cwd: join(import.meta.dirname, '../../../../..'), stdio: ['ignore', 'pipe', 'pipe'] },
    )
    let said = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => (said += text))
    }
    // Wait for the exit of the process, because its streams stay open while any process that inherited them runs.
    const exited = once(child, 'exit')
    await vi.waitUntil(() => /curl http:\S+\/watch/.test(said), { timeout: 25_000 })
    const all = family(child.pid ?? 0)
    onTestFinished(() => all.forEach((pid) => signal(pid, 'SIGKILL')))
    expect(all.length).toBeGreaterThan(1)
    child.kill(name)
    await exited
    expect(all.filter((pid) => runs(pid))).toEqual([])
    // The last output of the process may arrive after its exit.
    await expect.poll(() => said, { timeout: 10_000 }).toContain('stopped')
    await expect(fetch(/http:\/\/[\d.:]+/.exec(said)?.[0] ?? '')).rejects.toThrow('fetch failed')
  },
)
