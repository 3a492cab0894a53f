import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { end } from '../../../test/servers/process.ts'

/** The built service in a separate process. */
export interface ServiceProcess {
  readonly url: string
  kill(): Promise<void>
}

/** Starts the service for one test. By default it listens on a free port. It ends with the test. */
export async function serveProcess(directory: string, port = 0): Promise<ServiceProcess> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'serve.mjs'), directory, String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const kill = () => end(child, 'SIGKILL')
  onTestFinished(kill)
  const said = (await Promise.race([once(child.stdout, 'data'), once(child, 'exit')])) as unknown[]
  if (child.exitCode !== null) throw new Error(`the service ended with ${String(said[0])}`)
  return { url: String(said[0]).trim(), kill }
}

/** A directory that is removed after the test. */
export function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-watch-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** Sends JSON and returns the response body. */
export async function post(url: string, body: object): Promise<Record<string, unknown>> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  return (await response.json()) as Record<string, unknown>
}

/** The value of a metric of the service. */
export async function figure(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
}
