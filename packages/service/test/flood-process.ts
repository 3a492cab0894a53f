/** The processes of the flood tests: a service, its clients, and a bare server. */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'

type Child = ChildProcessByStdio<Writable, Readable, Readable>

export class FloodProcess {
  readonly child: Child
  out = ''
  error = ''

  constructor(args: readonly string[]) {
    this.child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    this.child.stdout.setEncoding('utf8').on('data', (text: string) => (this.out += text))
    this.child.stderr.setEncoding('utf8').on('data', (text: string) => (this.error += text))
    this.child.stdin.on('error', () => {})
  }

  get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null
  }

  /** Waits until the process has printed a match of this pattern. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.out) ?? pattern.exec(this.error)
      if (found) return found
      if (this.hasEnded) throw new Error(`${this.child.spawnargs.join(' ').slice(0, 200)} ended: ${this.error}`)
      await passed(10)
    }
  }

  /** Ends the process's standard input and returns the JSON that it prints last. */
  async report(): Promise<unknown> {
    this.child.stdin.end()
    await this.ended()
    return JSON.parse(this.out.trim().split('\n').at(-1) ?? '')
  }

  async ended(): Promise<void> {
    if (!this.hasEnded) await new Promise((resolve) => this.child.once('exit', resolve))
    if (!this.child.stdout.readableEnded) await new Promise((resolve) => this.child.stdout.once('end', resolve))
  }

  /** The peak memory of the process in MB. Undefined once the process has ended, and on systems other than Linux. */
  get peakRssMb(): number | undefined {
    try {
      const [, kilobytes] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${this.child.pid}/status`, 'utf8')) ?? []
      return kilobytes === undefined ? undefined : Number(kilobytes) / 1024
    } catch {
      return undefined
    }
  }

  async stop(): Promise<void> {
    if (!this.hasEnded) this.child.kill('SIGKILL')
    await this.ended()
  }
}

/**
 * The time during which the main thread of a process was ready to run but did not get a CPU. A server that is always
 * busy waits for a CPU much longer than a bare server that sleeps in between. 0 on systems other than Linux.
 */
export function waitedForCpuMs(pid: number | undefined): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

export function passed(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
