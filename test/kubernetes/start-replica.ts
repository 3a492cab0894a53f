import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, onTestFinished, vi } from 'vitest'
import { freePort } from '../servers/free-port.ts'
import { startWatchdog } from '../servers/watchdog.ts'

/** Starts one replica of a Deployment example as a process, outside any pod. It ends with the test. */
export async function startReplica(program: string, env: Record<string, string>, node = process.execPath) {
  const port = await freePort()
  const { KUBERNETES_SERVICE_HOST: _, ...inherited } = process.env
  const child = spawn(node, [program], { env: { ...inherited, PORT: String(port), ...env } })
  const watchdog = startWatchdog('SIGKILL')
  watchdog.guard(child)
  onTestFinished(() => {
    child.kill('SIGKILL')
    watchdog.dismiss()
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  }
  const lines = () => text.split('\n').filter((line) => line !== '')
  const isSaid = (line: string | RegExp) =>
    lines().some((said) => (typeof line === 'string' ? said === line : line.test(said)))
  return {
    lines,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    ended: once(child, 'close').then(([code, signal]) => ({ code, signal })),
    says: (line: string | RegExp) =>
      vi.waitFor(() => expect(isSaid(line), `the output lacks ${line}:\n${text}`).toBe(true), {
        timeout: 30_000,
        interval: 10,
      }),
    async asked(path: string): Promise<[status: number, text: string]> {
      const response = await fetch(`http://127.0.0.1:${port}${path}`)
      return [response.status, await response.text()]
    },
  }
}
