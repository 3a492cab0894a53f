import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'

export { temporaryFolder } from './temporary-folder.ts'

/** The command as it is installed. */
export const program = join(import.meta.dirname, '../bin/tenure.js')

export interface Spawned {
  readonly child: ChildProcess
  readonly output: { out: string; error: string }
  /** The exit code, or the signal. */
  readonly ended: Promise<number | string>
}

/** Runs the command without the TENURE_ variables of this machine. */
export function tenure(
  args: readonly string[],
  { cwd, env = {}, more = [] }: { cwd?: string; env?: Record<string, string>; more?: readonly 'pipe'[] } = {},
): Spawned {
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TENURE_')))
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...clean, ...env },
    stdio: ['ignore', 'pipe', 'pipe', ...more],
    ...(cwd !== undefined && { cwd }),
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const output = { out: '', error: '' }
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (output.out += text))
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (output.error += text))
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  return { child, output, ended }
}

export interface Served extends Spawned {
  readonly url: string
  lines(): Record<string, unknown>[]
}

/** Starts `tenure serve` on a free port with JSON logs, and waits until it listens. */
export async function serve(
  data: string,
  args: readonly string[] = [],
  options: Parameters<typeof tenure>[1] = {},
): Promise<Served> {
  const address = args.includes('--listen') ? [] : ['--listen', '127.0.0.1:0']
  const spawned = tenure(['serve', '--data', data, '--json', ...address, ...args], options)
  const lines = () => linesOf(spawned.output.error)
  const listens = () => lines().find(({ msg }) => msg === 'the service is listening')
  const line = await vi
    .waitUntil(() => listens() ?? (spawned.child.exitCode === null ? undefined : { url: undefined }), {
      timeout: 20_000,
      interval: 10,
    })
    .catch(() => ({ url: undefined }))
  if (typeof line.url !== 'string') throw new Error(`tenure serve did not start: ${spawned.output.error}`)
  return { ...spawned, url: line.url, lines }
}

/** Parses the complete lines of a log. */
export function linesOf(text: string): Record<string, unknown>[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

export interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly headers: Headers
}

export async function ask(url: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(url, {
    method: body ? 'POST' : 'GET',
    headers: { ...(body && { 'content-type': 'application/json' }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  })
  return {
    status: response.status,
    body: (await response.json()) as Record<string, unknown>,
    headers: response.headers,
  }
}

export function campaign(url: string, group: string, node_id: string, more: object = {}): Promise<Answer> {
  return ask(`${url}/v1/groups/${group}/campaign`, { node_id, lease_ttl_ms: 30_000, ...more })
}

/** Runs the command and waits for it to exit. */
export async function run(...args: Parameters<typeof tenure>) {
  const { ended, output } = tenure(...args)
  return { code: await ended, ...output }
}
