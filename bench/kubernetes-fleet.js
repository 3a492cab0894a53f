// Replicas of one kind that compete for the same Lease.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { hrtime } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * @typedef {{ leaseDurationMs: number, renewDeadlineMs: number, retryPeriodMs: number, renewIntervalMs?: number,
 *   present?: boolean, generation?: number, maxMembers?: number }} Timings
 * @typedef {{ event: 'started' | 'stopped' | 'new-leader', monotonicMs: number }} Told
 * @typedef {object} Replica
 * @property {readonly Told[]} events
 * @property {(event: Told['event'], options?: { laterThanMs?: number }) => Promise<Told>} first
 * @property {(signal: NodeJS.Signals) => Promise<void>} kill
 *
 * @typedef {{ seat: number | undefined, newerGeneration: number | undefined }} Knowledge
 */

/**
 * A replica of Tenure.
 *
 * @param {string} kubeConfig
 * @param {string} lease
 * @param {string} identity
 * @param {Timings} timings
 * @param {string} program
 * @returns {Replica & { ask(): Promise<Knowledge> }}
 */
export function startTenure(kubeConfig, lease, identity, timings, program = 'kubernetes-candidate.js') {
  const args = [kubeConfig, lease, identity, JSON.stringify(timings)]
  const child = fork(join(import.meta.dirname, program), args, { env: { ...process.env, KUBECONFIG: kubeConfig } })
  const exited = once(child, 'exit')
  /** @type {Told[]} */
  const events = []
  child.on('message', (/** @type {Told | Knowledge} */ message) => {
    if ('event' in message) events.push(message)
  })
  return {
    events,
    async first(event, { laterThanMs = -Infinity } = {}) {
      for (;;) {
        const found = events.find((told) => told.event === event && told.monotonicMs > laterThanMs)
        if (found) return found
        await once(child, 'message')
      }
    },
    async ask() {
      child.send('ask')
      for (;;) {
        const [message] = await once(child, 'message')
        if (!('event' in message)) return message
      }
    },
    async kill(signal) {
      child.kill(signal)
      await exited
    },
  }
}

export class Fleet {
  /** @type {Set<Replica>} */
  #replicas = new Set()
  #started = 0
  #start
  #settleMs

  /**
   * @param {(identity: string) => Replica} start
   * @param {number} settleMs how long a new standby needs to settle
   */
  constructor(start, settleMs) {
    this.#start = start
    this.#settleMs = settleMs
  }

  async add() {
    const replica = this.#start(`replica-${++this.#started}`)
    this.#replicas.add(replica)
    await replica.first('new-leader')
    await sleep(this.#settleMs)
  }

  /**
   * Ends the leader and replaces it. Returns the time until the next leader has started.
   *
   * @param {NodeJS.Signals} signal
   */
  async endLeader(signal) {
    const leader = [...this.#replicas].find(({ events }) => leads(events))
    if (!leader) throw new Error('the fleet has no leader')
    this.#replicas.delete(leader)
    const endedAtMs = Number(hrtime.bigint()) / 1e6
    const next = Promise.any([...this.#replicas].map((replica) => replica.first('started', { laterThanMs: endedAtMs })))
    await leader.kill(signal)
    const { monotonicMs } = await next
    await this.add()
    return monotonicMs - endedAtMs
  }

  async end() {
    await Promise.all([...this.#replicas].map((replica) => replica.kill('SIGKILL')))
  }
}

/** Whether the last of these events says that the replica leads. @param {readonly Told[]} events */
export function leads(events) {
  return events.findLast(({ event }) => event !== 'new-leader')?.event === 'started'
}
