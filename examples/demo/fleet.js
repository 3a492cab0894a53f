// Starts three candidates as real processes, does them harm, and measures what follows.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hrtime } from 'node:process'

export const leaseDurationMs = 3_000
const pauseMs = leaseDurationMs * 1.5
const restartMs = 1_500
const candidate = join(import.meta.dirname, 'candidate.js')

/** @typedef {'killed' | 'paused' | 'stopped'} Harm */

/**
 * @typedef {object} Member
 * @property {string} name
 * @property {import('node:child_process').ChildProcess | undefined} child
 * @property {'runs' | 'paused' | 'stopping' | 'gone'} condition
 * @property {number} leads the term it leads, by its own word; 0 if none
 * @property {import('./candidate.js').Status | undefined} status
 */

/** @typedef {{ harm: Harm, tookMs: number }} Takeover */

/** Milliseconds on a clock that all processes of this machine share. */
export function machineMs() {
  return Number(hrtime.bigint()) / 1e6
}

export class Fleet {
  /** @type {Member[]} */
  members = ['node-a', 'node-b', 'node-c'].map((name) => ({
    name,
    child: undefined,
    condition: 'gone',
    leads: 0,
    status: undefined,
  }))
  /** @type {Takeover[]} */
  takeovers = []
  highestTerm = 0
  #directory = mkdtempSync(join(tmpdir(), 'tenure-demo-'))
  /** @type {{ harm: Harm, name: string, term: number, atMs: number } | undefined} */
  #pending
  /** @type {Set<NodeJS.Timeout>} */
  #timers = new Set()
  #ended = false
  #log
  #onElected

  /**
   * @param {(text: string) => void} log
   * @param {() => void} onElected
   */
  constructor(log, onElected) {
    this.#log = log
    this.#onElected = onElected
  }

  start() {
    for (const member of this.members) this.#spawn(member)
  }

  /** SIGKILL: the process gets no chance to say goodbye. The kernel closes its socket, which the others notice. */
  kill() {
    this.#harm('killed', (member) => {
      member.condition = 'gone'
      member.child?.kill('SIGKILL')
    })
  }

  /** SIGSTOP: the process is alive but stands still, so the others must wait until its lease has run out. */
  pause() {
    this.#harm('paused', (member) => {
      const { child } = member
      member.condition = 'paused'
      child?.kill('SIGSTOP')
      this.#later(pauseMs, () => {
        if (member.child !== child) return
        member.condition = 'runs'
        this.#log(`${member.name} goes on after a pause of ${seconds(pauseMs)}`)
        child?.kill('SIGCONT')
      })
    })
  }

  /** A clean stop gives the lease back, so nobody has to wait. */
  stop() {
    this.#harm('stopped', (member) => {
      member.condition = 'stopping'
      member.child?.send('stop')
    })
  }

  /** Ends every process, then removes what they shared. */
  async end() {
    this.#ended = true
    for (const timer of this.#timers) clearTimeout(timer)
    const running = this.members.flatMap(({ child }) => (child ? [child] : []))
    const gone = running.map((child) => once(child, 'exit'))
    for (const child of running) child.kill('SIGKILL')
    await Promise.all(gone)
    this.endNow()
  }

  /** The same without waiting, for a program that is about to exit. */
  endNow() {
    for (const { child } of this.members) child?.kill('SIGKILL')
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 3 })
  }

  /**
   * @param {Harm} harm
   * @param {(leader: Member) => void} act
   */
  #harm(harm, act) {
    const leader = this.members.find(({ leads, condition }) => leads > 0 && condition === 'runs')
    if (!leader) return this.#log('nobody leads right now: wait for the next leader')
    this.#pending = { harm, name: leader.name, term: leader.leads, atMs: machineMs() }
    act(leader)
    const why = harm === 'paused' ? ': its lease must run out' : ''
    this.#log(`${harm} ${leader.name}, the leader of term ${leader.leads}${why}`)
  }

  /** @param {Member} member */
  #spawn(member) {
    const child = fork(candidate, [this.#directory, member.name, String(leaseDurationMs)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    Object.assign(member, { child, condition: 'runs', leads: 0, status: undefined })
    this.#log(`${member.name} starts as process ${child.pid}`)
    child.on('message', (/** @type {import('./candidate.js').Report} */ report) => this.#take(member, report))
    child.stderr?.setEncoding('utf8').on('data', (text) => this.#log(`${member.name}: ${text.trim()}`))
    // Sending to a process that just died fails; its exit tells the rest.
    child.on('error', () => {})
    child.once('exit', () => {
      Object.assign(member, { child: undefined, condition: 'gone', leads: 0, status: undefined })
      this.#later(restartMs, () => this.#spawn(member))
    })
  }

  /**
   * @param {Member} member
   * @param {import('./candidate.js').Report} report
   */
  #take(member, report) {
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

  /**
   * @param {string} name
   * @param {import('./candidate.js').Elected} elected
   */
  #logElection(name, { term, atMs }) {
    const pending = this.#pending
    if (!pending || term <= pending.term) return this.#log(`${name} leads term ${term}`)
    this.#pending = undefined
    const { harm } = pending
    const tookMs = atMs - pending.atMs
    this.takeovers.push({ harm, tookMs })
    this.#log(`${harm} ${pending.name} (term ${pending.term}) -> ${name} leads term ${term} after ${inMs(tookMs)}`)
  }

  /**
   * @param {number} delayMs
   * @param {() => void} action
   */
  #later(delayMs, action) {
    if (this.#ended) return
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      action()
    }, delayMs)
    this.#timers.add(timer)
  }
}

/** @param {number} ms */
export function inMs(ms) {
  return `${Math.round(ms)} ms`
}

/** @param {number} ms */
export function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`
}
