/** Starts three candidates as real processes, harms them, and measures what follows. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { now, setTimer } from '../shared/clock.ts'
import type { CandidateOrder, Report } from './candidate.ts'

export const leaseDurationMs = 3_000
const absenceMs = leaseDurationMs * 1.5
const restartMs = 1_500

/** What can be done to the leader, and what has then been done to it. */
export const harms = { kill: 'killed', pause: 'paused', cut: 'cut off', stop: 'stopped' } as const

export type Harm = keyof typeof harms

export interface Member {
  readonly name: string
  child: ChildProcess | undefined
  condition: 'runs' | 'paused' | 'cut off' | 'stopping' | 'gone'
  /** The term it leads, as it reports; 0 if none. */
  leads: number
  status: Extract<Report, { type: 'status' }> | undefined
}

export interface Takeover {
  readonly harm: Harm
  readonly tookMs: number
}

/** Milliseconds on a clock that all processes of this machine share. */
export function machineMs(): number {
  return now().machineMs
}

export class Fleet {
  readonly members: readonly Member[] = ['node-a', 'node-b', 'node-c'].map((name) => ({
    name,
    child: undefined,
    condition: 'gone',
    leads: 0,
    status: undefined,
  }))
  readonly takeovers: Takeover[] = []
  highestTerm = 0
  readonly #directory = mkdtempSync(join(tmpdir(), 'tenure-demo-'))
  readonly #log: (text: string) => void
  readonly #onElected: () => void
  #pending: { harm: Harm; name: string; term: number; atMs: number } | undefined
  #timers = new Set<() => void>()
  #ended = false

  constructor(log: (text: string) => void, onElected: () => void) {
    this.#log = log
    this.#onElected = onElected
  }

  start(): void {
    for (const member of this.members) this.#spawn(member)
  }

  /** Does something to the leader. */
  harm(harm: Harm): void {
    const leader = this.members.find(({ leads, condition }) => leads > 0 && condition === 'runs')
    if (!leader) return this.#log('nobody leads right now: wait for the next leader')
    this.#pending = { harm, name: leader.name, term: leader.leads, atMs: machineMs() }
    this.#log(`${harms[harm]} ${leader.name}, the leader of term ${leader.leads}${notes[harm]}`)
    this.#act(harm, leader)
  }

  /** Ends every process, then removes what they shared. */
  async end(): Promise<void> {
    this.#ended = true
    for (const cancel of this.#timers) cancel()
    const running = this.members.flatMap(({ child }) => (child ? [child] : []))
    const gone = running.map((child) => once(child, 'exit'))
    for (const child of running) child.kill('SIGKILL')
    await Promise.all(gone)
    this.endNow()
  }

  /** The same without waiting, for a program that is about to exit. */
  endNow(): void {
    for (const { child } of this.members) child?.kill('SIGKILL')
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 3 })
  }

  #act(harm: Harm, leader: Member): void {
    const { child } = leader
    switch (harm) {
      // The process cannot clean up. The kernel closes its socket, which the others notice.
      case 'kill':
        leader.condition = 'gone'
        child?.kill('SIGKILL')
        return
      // It is alive but does not run, so the others must wait until its lease has run out.
      case 'pause':
        leader.condition = 'paused'
        child?.kill('SIGSTOP')
        return this.#bringBack(leader, 'goes on', () => child?.kill('SIGCONT'))
      // It runs, but no call of its store is answered: it must notice by its own clock that it no longer leads.
      case 'cut':
        leader.condition = 'cut off'
        order(child, 'cut')
        return this.#bringBack(leader, 'reaches its store again', () => order(child, 'mend'))
      // A clean stop releases the lease, so nobody has to wait.
      case 'stop':
        leader.condition = 'stopping'
        return order(child, 'stop')
    }
  }

  #bringBack(member: Member, what: string, act: () => void): void {
    const { child } = member
    this.#later(absenceMs, () => {
      if (member.child !== child) return
      member.condition = 'runs'
      this.#log(`${member.name} ${what} after ${seconds(absenceMs)}`)
      act()
    })
  }

  #spawn(member: Member): void {
    const args = [this.#directory, member.name, String(leaseDurationMs)]
    // Beside this program, as it was built.
    const child = fork(fileURLToPath(new URL('candidate.js', import.meta.url)), args, {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    Object.assign(member, { child, condition: 'runs', leads: 0, status: undefined })
    this.#log(`${member.name} starts as process ${child.pid}`)
    child.on('message', (report: Report) => this.#take(member, report))
    child.stderr?.setEncoding('utf8').on('data', (text: string) => this.#log(`${member.name}: ${text.trim()}`))
    // Sending to a process that just died fails; its exit is handled below.
    child.on('error', () => {})
    child.once('exit', () => {
      Object.assign(member, { child: undefined, condition: 'gone', leads: 0, status: undefined })
      this.#later(restartMs, () => this.#spawn(member))
    })
  }

  #take(member: Member, report: Report): void {
    if (this.#ended) return
    if (report.type === 'status') member.status = report
    if (report.type === 'error') this.#log(`${member.name}: ${report.message}`)
    if (report.type === 'lost') {
      member.leads = 0
      if (report.reason !== 'stopped')
        this.#log(`${member.name} knows that it lost term ${report.term} (${report.reason})`)
    }
    if (report.type === 'elected') {
      member.leads = report.term
      this.highestTerm = Math.max(this.highestTerm, report.term)
      this.#logElection(member.name, report)
      this.#onElected()
    }
  }

  #logElection(name: string, { term, atMs }: { term: number; atMs: number }): void {
    const pending = this.#pending
    if (!pending || term <= pending.term) return this.#log(`${name} leads term ${term}`)
    this.#pending = undefined
    const { harm } = pending
    const tookMs = atMs - pending.atMs
    this.takeovers.push({ harm, tookMs })
    const before = `${harms[harm]} ${pending.name} (term ${pending.term})`
    this.#log(`${before} -> ${name} leads term ${term} after ${inMs(tookMs)}`)
  }

  #later(delayMs: number, action: () => void): void {
    if (this.#ended) return
    const cancel = setTimer(delayMs, () => {
      this.#timers.delete(cancel)
      action()
    })
    this.#timers.add(cancel)
  }
}

const notes: Readonly<Record<Harm, string>> = {
  kill: '',
  pause: ': its lease must run out',
  cut: ': its lease must run out',
  stop: '',
}

function order(child: ChildProcess | undefined, order: CandidateOrder): void {
  child?.send(order)
}

export function inMs(ms: number): string {
  return `${Math.round(ms)} ms`
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
