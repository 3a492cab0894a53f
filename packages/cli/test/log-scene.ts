/** Runs `tenure serve` with a log that cannot be written to. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, vi } from 'vitest'
import { freePort } from '../../../test/servers/free-port.ts'
import { figure } from '../../service/test/service-process.ts'
import { ask, campaign, program, temporaryFolder } from './tenure.ts'

/** Starts `tenure serve` with this standard error, and waits until it answers. */
export async function serveInto(standardError: number | 'pipe') {
  // The log cannot be read here, so the port must be known in advance.
  const port = await freePort()
  const address = `127.0.0.1:${port}`
  const args = [
    'serve',
    '--data',
    join(temporaryFolder(), 'data'),
    '--listen',
    address,
    '--json',
    '--log-level',
    'info',
  ]
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'ignore', standardError] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | string)
  const url = `http://${address}`
  await vi.waitUntil(
    () =>
      fetch(`${url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      ),
    { timeout: 20_000 },
  )
  return { url, child, ended }
}

/** Starts and ends terms, each of which logs a line. The long names make the lines long. */
export async function makeLines(url: string, pairs: number): Promise<void> {
  const inOneGroup = async (_: unknown, index: number) => {
    const group = `jobs-${index}`.padEnd(120, '-')
    for (let count = 0; count < pairs / 10; count++) {
      const { body } = await campaign(url, group, `node-${count}-`.padEnd(250, 'x'))
      const { node_id, term } = body['leader'] as { node_id: string; term: number }
      expect(await ask(`${url}/v1/groups/${group}/resign`, { node_id, term })).toMatchObject({ status: 200 })
    }
  }
  await Promise.all(Array.from({ length: 10 }, inOneGroup))
}

/** Opens a file that is closed when the test ends. */
export function openFor(path: string, flags: number): number {
  const descriptor = openSync(path, flags | constants.O_NONBLOCK)
  opened.add(descriptor)
  onTestFinished(() => closeOnce(descriptor))
  return descriptor
}

const opened = new Set<number>()

export function closeOnce(descriptor: number): void {
  if (opened.delete(descriptor)) closeSync(descriptor)
}

export const lostLines = (url: string) => figure(url, 'tenure_log_lines_lost_total')
