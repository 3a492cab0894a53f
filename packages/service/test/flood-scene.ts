/** A service under attack, with an honest client and a bare server beside it. Each is a process. */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { audience, claimsOf, ecKeys, issuer, jwkOf, signed } from './auth/tokens.ts'

/** Every attack that `attack.mjs` knows. */
export const attacks = [
  'fanout',
  'flapping',
  'pipelined',
  'pipelined, too deep',
  'connections',
  'held connections',
  'anonymous',
  'anonymous, refused',
  'forged tokens',
  'polls',
  'changes',
  'far terms',
  'new groups',
  'openapi',
  'members',
] as const
export type Attack = (typeof attacks)[number] | 'none'

export interface Measured {
  readonly attack: Attack
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  readonly leasesLost: number
  /** Answers to the honest client, by status; 0: it got none. */
  readonly statuses: Readonly<Record<string, number>>
  /** The most memory that the service had. Undefined where the system does not say. */
  readonly peakRssMb: number | undefined
  readonly bareP99Ms: number
  readonly bareMaxMs: number
  /** Whether the service still runs. */
  readonly survived: boolean
  /** Answers to the attacker, by status. */
  readonly answered: Readonly<Record<string, number>>
  /** The metrics of the service afterwards. */
  readonly metrics: string
}

export interface SceneOptions {
  /** How long the attack lasts once it has begun. */
  readonly forMs: number
  /** The heap of the service. Default: that of Node. */
  readonly heapMb?: number
  /** Flags of `tenure serve`. */
  readonly flags?: readonly string[]
  /** Another build of the command. */
  readonly program?: string
}

const program = join(import.meta.dirname, '../../cli/bin/tenure.js')
const bareServer = `require('node:http').createServer((_, answer) => answer.end('{}')).listen(0, '127.0.0.1', function () {
  console.log('http://127.0.0.1:' + this.address().port)
})`

type Child = ChildProcessByStdio<Writable, Readable, Readable>

class Process {
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

  /** Waits until it has printed this. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.out) ?? pattern.exec(this.error)
      if (found) return found
      if (this.hasEnded) throw new Error(`${this.child.spawnargs.join(' ').slice(0, 200)} ended: ${this.error}`)
      await passed(10)
    }
  }

  /** Ends its input, and gives the JSON that it prints last. */
  async report(): Promise<unknown> {
    this.child.stdin.end()
    await this.ended()
    return JSON.parse(this.out.trim().split('\n').at(-1) ?? '')
  }

  async ended(): Promise<void> {
    if (!this.hasEnded) await new Promise((resolve) => this.child.once('exit', resolve))
    if (!this.child.stdout.readableEnded) await new Promise((resolve) => this.child.stdout.once('end', resolve))
  }

  async stop(): Promise<void> {
    if (!this.hasEnded) this.child.kill('SIGKILL')
    await this.ended()
  }
}

/** Attacks a service for a while, and measures what the honest client sees meanwhile. */
export async function measure(attack: Attack, options: SceneOptions): Promise<Measured> {
  const keys = ecKeys()
  const tokenFor = (sub: string, tenure: object) =>
    signed({ alg: 'ES256', kid: 'one' }, claimsOf(sub, { tenure }), keys.privateKey)
  const folder = mkdtempSync(join(tmpdir(), 'tenure-flood-'))
  const running: Process[] = []
  const run = (...args: readonly string[]) => {
    const started = new Process(args)
    running.push(started)
    return started
  }
  try {
    const keysFile = join(folder, 'keys.json')
    writeFileSync(keysFile, JSON.stringify({ keys: [jwkOf(keys.publicKey, { kid: 'one', alg: 'ES256' })] }))
    const heap = options.heapMb === undefined ? [] : [`--max-old-space-size=${options.heapMb}`]
    const identity = ['--jwt-keys', keysFile, '--jwt-issuer', issuer, '--jwt-audience', audience]
    const serve = ['serve', '--data', join(folder, 'data'), '--json', '--listen', '127.0.0.1:0', ...identity]
    const service = run(...heap, options.program ?? program, ...serve, ...(options.flags ?? []))
    const [, url = ''] = await service.until(/"url":"([^"]+)"/)
    const bare = run('-e', bareServer)
    const [bareUrl] = await bare.until(/http:\S+/)
    const path = (name: string) => join(import.meta.dirname, name)
    const mine = { groups: ['mine-*'], nodePrefix: 'attacker' }
    // It leads before the attack begins.
    const honest = run(path('honest.mjs'), url, bareUrl, tokenFor('honest', { groups: ['other-*'] }))
    await honest.until(/ready/)
    const attacker = run(path('attack.mjs'), attack, url, tokenFor('attacker', mine))
    await attacker.until(/ready/)
    honest.child.stdin.write('measure\n')
    await passed(options.forMs)
    const seen = (await honest.report()) as Seen
    const answered = (await attacker.report()) as Record<string, number>
    const survived = !service.hasEnded
    const peakRssMb = survived ? peakRssOf(service.child.pid ?? 0) : undefined
    const reader = tokenFor('reader', { reader: true })
    const asked = survived && (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${reader}` } }))
    return {
      attack,
      p50Ms: percentile(seen.renewalsMs, 0.5),
      p99Ms: percentile(seen.renewalsMs, 0.99),
      maxMs: Math.max(...seen.renewalsMs),
      leasesLost: seen.leasesLost,
      statuses: seen.statuses,
      peakRssMb,
      bareP99Ms: percentile(seen.bareMs, 0.99),
      bareMaxMs: Math.max(...seen.bareMs),
      survived,
      answered,
      metrics: asked ? await asked.text() : '',
    }
  } finally {
    await Promise.all(running.map((each) => each.stop()))
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Seen {
  readonly renewalsMs: number[]
  readonly bareMs: number[]
  readonly leasesLost: number
  readonly statuses: Record<string, number>
}

function percentile(values: readonly number[], part: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] ?? Infinity
}

/** Linux alone keeps it. */
function peakRssOf(pid: number): number | undefined {
  try {
    const [, kilobytes] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return kilobytes === undefined ? undefined : Number(kilobytes) / 1024
  } catch {
    return undefined
  }
}

function passed(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
