/** Starts three candidates as real processes, injects faults, and measures the failover times. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { now, setTimer } from '../../shared/clock.ts'
import type { CandidateOrder, Report } from './candidate.ts'

export const leaseDurationMs = 3_000
const absenceMs = leaseDurationMs * 1.5
const restartMs = 1_500

/** The faults that can be injected into the leader, each with its past participle for the log. */
export const faults = { kill: 'killed', pause: 'paused', cut: 'cut off', stop: 'stopped' } as const

export type DemoFault = keyof typeof faults

export interface DemoMember {
  readonly name: string
  child: ChildProcess | undefined
  condition: 'runs' | 'paused' | 'cut off' | 'stopping' | 'gone'
  /** The term in which this member says it leads, or 0 if it does not lead. */
  leads: number
  status: Extract<Report, { type: 'status' }> | undefined
}

export interface Takeover {
  readonly fault: DemoFault
  readonly tookMs: number
}

/** Milliseconds on a clock that all processes on this machine share. */
export function machineMs(): number {
  return now().machineMs
}

export class DemoFleet {
  readonly members: readonly DemoMember[] = ['node-a', 'node-b', 'node-c'].map((name) => ({
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
  #pending: { fault: DemoFault; name: string; term: number; atMs: number } | undefined
  #timers = new Set<() => void>()
  #ended = false

  constructor(log: (text: string) => void, onElected: () => void) {
    this.#log = log
    this.#onElected = onElected
  }

  start(): void {
    for (const member of this.members) this.#spawn(member)
  }

  /** Injects a fault into the current leader. */
  injectFault(fault: DemoFault): void {
    const leader = this.members.find(({ leads, condition }) => leads > 0 && condition === 'runs')
    if (!leader) return this.#log('no leader right now: wait for the next election')
    this.#pending = { fault, name: leader.name, term: leader.leads, atMs: machineMs() }
    this.#log(`${faults[fault]} ${leader.name}, the leader of term ${leader.leads}${notes[fault]}`)
    this.#act(fault, leader)
  }

  /** Kills every candidate and waits for it, then removes the shared folder. */
  async end(): Promise<void> {
    this.#ended = true
    for (const cancel of this.#timers) cancel()
    const running = this.members.flatMap(({ child }) => (child ? [child] : []))
    const gone = running.map((child) => once(child, 'exit'))
    for (const child of running) child.kill('SIGKILL')
    await Promise.all(gone)
    this.endNow()
  }

  /** Like end(), but without waiting, for a program that is about to exit. */
  endNow(): void {
    for (const { child } of this.members) child?.kill('SIGKILL')
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 3 })
  }

  #act(fault: DemoFault, leader: DemoMember): void {
    const { child } = leader
    switch (fault) {
      // A killed process cannot clean up. The kernel closes its socket, which the other candidates notice.
      case 'kill':
        leader.condition = 'gone'
        child?.kill('SIGKILL')
        return
      // A paused process is alive but does not run, so the others must wait until its lease expires.
      case 'pause':
        leader.condition = 'paused'
        child?.kill('SIGSTOP')
        return this.#bringBack(leader, 'continues', () => child?.kill('SIGCONT'))
      // A process that is cut off still runs, but its store calls get no answer. It learns only from its own clock that
      // it no longer leads.
      case 'cut':
        leader.condition = 'cut off'
        order(child, 'cut')
        return this.#bringBack(leader, 'reaches its store again', () => order(child, 'mend'))
      // A clean stop releases the lease, so no candidate has to wait.
      case 'stop':
        leader.condition = 'stopping'
        return order(child, 'stop')
    }
  }

  #bringBack(member: DemoMember, what: string, act: () => void): void {
    const { child } = member
    this.#later(absenceMs, () => {
      if (member.child !== child) return
      member.condition = 'runs'
      this.#log(`${member.name} ${what} after ${seconds(absenceMs)}`)
      act()
    })
  }

  #spawn(member: DemoMember): void {
    const args = [this.#directory, member.name, String(leaseDurationMs)]
    // The build puts candidate.js next to this file.
    const child = fork(fileURLToPath(new URL('candidate.js', import.meta.url)), args, {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    Object.assign(member, { child, condition: 'runs', leads: 0, status: undefined })
    this.#log(`${member.name} starts as process ${child.pid}`)
    child.on('message', (report: Report) => this.#take(member, report))
    child.stderr?.setEncoding('utf8').on('data', (text: string) => this.#log(`${member.name}: ${text.trim()}`))
    // Sending to a process that has just died fails. The exit handler below covers that case.
    child.on('error', () => {})
    child.once('exit', () => {
      Object.assign(member, { child: undefined, condition: 'gone', leads: 0, status: undefined })
      this.#later(restartMs, () => this.#spawn(member))
    })
  }

  #take(member: DemoMember, report: Report): void {
    if (this.#ended) return
    if (report.type === 'status') member.status = report
    if (report.type === 'error') this.#log(`${member.name}: ${report.message}`)
    if (report.type === 'lost') {
      member.leads = 0
      if (report.reason !== 'stopped')
        this.#log(`${member.name} noticed that it lost term ${report.term} (${report.reason})`)
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
    const { fault } = pending
    const tookMs = atMs - pending.atMs
    this.takeovers.push({ fault: fault, tookMs })
    const before = `${faults[fault]} ${pending.name} (term ${pending.term})`
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

const notes: Readonly<Record<DemoFault, string>> = {
  kill: '',
  pause: ': its lease must expire first',
  cut: ': its lease must expire first',
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
