// Candidates of one kind that compete for the same election.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { hrtime } from 'node:process'

const program = join(import.meta.dirname, 'store-candidate.js')
/** The timeout of a round. A missing figure is better than a command that hangs. */
const patienceMs = 60_000

/**
 * @typedef {import('node:child_process').ChildProcess} ChildProcess
 * @typedef {import('./contenders/take-turns.js').Told} Told
 * @typedef {Told & { child: ChildProcess }} Event
 * @typedef {{ event: Told['event'], child?: ChildProcess, laterThanMs?: number, withinMs?: number }} Asked
 */

export class Fleet {
  /** @type {Set<ChildProcess>} */
  #children = new Set()
  /** @type {Event[]} */
  #events = []
  /** @type {Set<() => void>} */
  #waiting = new Set()
  #contender
  #election
  #leaseDurationMs
  #started = 0

  /**
   * @param {import('./store-places.js').Contender} contender
   * @param {string} election
   * @param {number} leaseDurationMs
   */
  constructor(contender, election, leaseDurationMs) {
    this.#contender = contender
    this.#election = election
    this.#leaseDurationMs = leaseDurationMs
  }

  /**
   * Starts another candidate, and waits until it stands by or leads. @param {string} url @param {NodeJS.ProcessEnv}
   * [env]
   */
  async add(url, env = {}) {
    const identity = `candidate-${++this.#started}`
    const args = [this.#contender.program, url, this.#election, identity, String(this.#leaseDurationMs)]
    const child = fork(program, args, { env: { ...process.env, ...env } })
    this.#children.add(child)
    child.once('exit', () => this.#children.delete(child))
    child.on('message', (/** @type {Told} */ told) => {
      this.#events.push({ ...told, child })
      for (const wake of this.#waiting) wake()
    })
    await this.first({ event: 'ready', child })
    return child
  }

  /** Asks the leader to release its lease. Returns the time until the next candidate leads. */
  async release() {
    const { child, monotonicMs } = this.#newest('started')
    child.send('release')
    const releases = await this.first({ event: 'releases', child, laterThanMs: monotonicMs })
    const next = await this.first({ event: 'started', laterThanMs: releases.monotonicMs })
    return next.monotonicMs - releases.monotonicMs
  }

  /**
   * Kills a leader that has just renewed or been elected, so that its whole lease remains. Returns the time until the
   * next candidate leads.
   */
  async killLeader() {
    if (this.#contender.fresh === 'started') await this.release()
    else await this.first({ event: 'renewed', laterThanMs: machineMs() })
    const { child } = this.#newest('started')
    const exited = once(child, 'exit')
    const killedAtMs = machineMs()
    child.kill('SIGKILL')
    await exited
    const next = await this.first({ event: 'started', laterThanMs: killedAtMs })
    return next.monotonicMs - killedAtMs
  }

  /**
   * Resolves with the first such event of any candidate, or of the named one.
   *
   * @param {Asked} asked
   * @returns {Promise<Event>}
   */
  first({ event, child, laterThanMs = -Infinity, withinMs = patienceMs }) {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = this.#events.find(
          (told) => told.event === event && told.monotonicMs > laterThanMs && (child ?? told.child) === told.child,
        )
        if (!found) return
        end()
        resolve(found)
      }
      const end = () => {
        clearTimeout(timer)
        this.#waiting.delete(look)
      }
      const timer = setTimeout(() => {
        end()
        reject(new Error(`${this.#contender.name}: no "${event}" within ${withinMs} ms`))
      }, withinMs)
      this.#waiting.add(look)
      look()
    })
  }

  /** The most recent leader. */
  get leader() {
    return this.#newest('started').child
  }

  /** @param {Told['event']} event */
  count(event) {
    return this.#events.filter((told) => told.event === event).length
  }

  async end() {
    await Promise.all([...this.#children].map((child) => endChild(child)))
  }

  /** @param {Told['event']} event */
  #newest(event) {
    const newest = this.#events.findLast((told) => told.event === event)
    if (!newest) throw new Error(`${this.#contender.name}: no "${event}" so far`)
    return newest
  }
}

/** @param {ChildProcess} child */
export async function endChild(child) {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

function machineMs() {
  return Number(hrtime.bigint()) / 1e6
}
