import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, vi } from 'vitest'
import { loadKernelLocks } from '@tenure/internal/kernel-locks'
import { program, temporaryFolder } from '../tenure.ts'

const worker = join(import.meta.dirname, 'logging-command.mjs')

export interface Line {
  readonly what: string
  /** The term, or the token of the shard. */
  readonly term: number
  readonly pid: number
  readonly at: number
  readonly slot?: string
  readonly shard?: string
  readonly identity?: string
}

/** A running `tenure run`. */
export interface Wrapper {
  readonly child: ChildProcess
  readonly output: { out: string; error: string }
  readonly ended: Promise<number | string>
  readonly isOver: () => boolean
  /** The process id of the supervisor. */
  supervisor(): number
}

export interface Scene {
  readonly folder: string
  readonly file: string
  readonly store: string
  run(args: readonly string[], options?: RunOptions, election?: string): Wrapper
  /** Runs the worker as the command. */
  work(args: readonly string[], worker?: readonly string[], options?: RunOptions): Wrapper
  /** Runs the worker for each shard of GROUP:N that the wrapper owns. */
  share(shards: string, args: readonly string[], worker?: readonly string[], options?: RunOptions): Wrapper
  lines(): Line[]
  /** Waits for a line, optionally of one term. */
  wrote(what: string, term?: number): Promise<Line>
}

export interface RunOptions {
  /** The path of another build of the command. */
  readonly command?: string
  readonly env?: Record<string, string>
  readonly stdio?: StdioOptions
  /** A program with its arguments that executes the command. */
  readonly within?: readonly string[]
  /** The user to run as. */
  readonly user?: { readonly uid: number; readonly gid: number }
}

export function scene(store?: string, name = 'jobs'): Scene {
  const folder = temporaryFolder()
  const file = join(folder, 'work')
  const url = store ?? `file://${join(folder, 'leases')}`
  const run: Scene['run'] = (args, options, election = name) =>
    start(['run', election, '--store', url, ...args], options)
  const lines = () => linesOf(file)
  return {
    folder,
    file,
    store: url,
    run,
    work: (args, more = [], options = {}) =>
      run([...args, '--', process.execPath, worker, '--file', file, ...more], options),
    share: (shards, args, more = [], options = {}) =>
      start(
        ['run', '--shards', shards, '--store', url, ...args, '--', process.execPath, worker, '--file', file, ...more],
        options,
      ),
    lines,
    wrote: (what, term) =>
      vi.waitUntil(() => lines().find((line) => line.what === what && (term === undefined || line.term === term)), {
        timeout: 25_000,
        interval: 20,
      }),
  }
}

function start(args: readonly string[], options: RunOptions = {}): Wrapper {
  const { command = program, env = {}, stdio = ['ignore', 'pipe', 'pipe'], within = [], user } = options
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TENURE_')))
  const [file = '', ...words] = [...within, process.execPath, command, ...args]
  const child = spawn(file, words, { env: { ...clean, ...env }, stdio, ...user })
  const output = { out: '', error: '' }
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (output.out += text))
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (output.error += text))
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  let seen: number | undefined
  const supervisor = () => (seen = childrenOf(child.pid ?? 0)[0] ?? seen ?? fail('no supervisor'))
  onTestFinished(() => clearAway(child, ended))
  return { child, output, ended, isOver: () => child.exitCode !== null || child.signalCode !== null, supervisor }
}

/**
 * Kills the wrapper and its descendants. The supervisor normally ends the command when its wrapper is gone, but a
 * mutant might not, so the rest are killed here. Supervisors that a test paused are resumed first.
 */
async function clearAway(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  const supervisors = childrenOf(child.pid ?? 0)
  const all = [...supervisors, ...supervisors.flatMap((pid) => childrenOf(pid))]
  for (const pid of supervisors) signal(pid, 'SIGCONT')
  child.kill('SIGKILL')
  await vi.waitUntil(() => !all.some((pid) => runs(pid)), { timeout: 3_000 }).catch(() => {})
  for (const pid of all) for (const target of [pid, -pid]) signal(target, 'SIGKILL')
  await ended
}

function fail(text: string): never {
  throw new Error(text)
}

export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // The process is gone.
  }
}

function linesOf(file: string): Line[] {
  if (!existsSync(file)) return []
  return readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line)
}

export function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const text = readFileSync(`/proc/${name}/stat`, 'utf8')
        return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1]) === parent
      } catch {
        return false
      }
    })
    .map(Number)
}

/** The kernel's state letter of a process, or Z if there is no such process. */
export function stateOf(pid: number): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.charAt(text.lastIndexOf(')') + 2)
  } catch {
    return 'Z'
  }
}

export function runs(pid: number): boolean {
  return stateOf(pid) !== 'Z'
}

/**
 * Stops a wrapper while it holds no lock of the file store. A stopped process keeps its locks, so nobody else could lead
 * until it continues.
 */
export async function stopWithoutLock({ folder }: Scene, { child }: Wrapper): Promise<void> {
  const leases = join(folder, 'leases')
  const locks = await loadKernelLocks()
  const isFree = (name: string) => {
    const file = openSync(join(leases, name), 'r+')
    try {
      if (!locks.tryLock(file)) return false
      locks.unlock(file)
      return true
    } finally {
      closeSync(file)
    }
  }
  const areFree = async () => {
    const held = new Set(existsSync(leases) ? readdirSync(leases).filter((name) => name.endsWith('.lock')) : [])
    const seeAllFree = () => {
      for (const name of held) if (isFree(name)) held.delete(name)
      return held.size === 0
    }
    // Another process holds a lock only for milliseconds.
    return vi.waitUntil(seeAllFree, { timeout: 1_000, interval: 5 }).catch(() => false)
  }
  for (;;) {
    child.kill('SIGSTOP')
    await vi.waitUntil(() => stateOf(child.pid ?? 0) === 'T', { timeout: 10_000, interval: 5 })
    if (await areFree()) return
    child.kill('SIGCONT')
    await vi.waitUntil(() => stateOf(child.pid ?? 0) !== 'T', { timeout: 10_000, interval: 5 })
  }
}

/** Returns the terms that started work before the previous term had ended, and by how many milliseconds. */
export function overlaps(lines: readonly Line[]): { term: number; byMs: number }[] {
  const spans = termsOf(lines).map((term) => {
    const times = lines.filter((line) => line.term === term).map(({ at }) => at)
    return { term, from: Math.min(...times), to: Math.max(...times) }
  })
  return spans
    .slice(1)
    .map(({ term, from }, index) => ({ term, byMs: (spans[index]?.to ?? 0) - from }))
    .filter(({ byMs }) => byMs >= 0)
}

/** Expects that no two terms worked at the same time. Returns the terms in order. */
export function expectNoOverlap(lines: readonly Line[]): number[] {
  expect(overlaps(lines)).toEqual([])
  return termsOf(lines)
}

function termsOf(lines: readonly Line[]): number[] {
  return [...new Set(lines.map(({ term }) => term))].sort((one, other) => one - other)
}
