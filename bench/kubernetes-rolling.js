// Measures rolling updates: how many times the leader changes until every replica has been replaced, and for how long
// nobody leads.
import { hrtime } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { leads } from './kubernetes-fleet.js'
import { format, median } from './numbers.js'

/**
 * @typedef {import('./kubernetes-fleet.js').Replica} Replica
 * @typedef {'stop-first' | 'start-first'} Strategy
 *   stop-first ends an old replica before it starts a new one, as a StatefulSet, systemd and pm2 do. start-first is a
 *   Deployment with `maxSurge: 1` and `maxUnavailable: 0`
 *
 * @typedef {object} Round
 * @property {number} changes how many replicas became leader in this round
 * @property {number[]} gapsMs from the SIGTERM of each leader to the start of the next one
 */

/** Replicas of one kind that are replaced one by one. */
export class RollingFleet {
  /** @type {Set<Replica>} */
  #replicas = new Set()
  /** Every replica that has ever been started. @type {Replica[]} */
  #all = []
  /** Those that are yet to be replaced in this round, in order. @type {Replica[]} */
  #old = []
  /** The state of the round. */
  #startsBefore = 0
  /** @type {number[]} */
  #gapsMs = []
  #generation = 1
  #start

  /** @param {(identity: string, generation: number) => Replica} start */
  constructor(start) {
    this.#start = start
  }

  /** Starts a replica of the current generation. Resolves when it knows the leader. */
  async add() {
    const replica = this.#start(`replica-${this.#all.length + 1}`, this.#generation)
    this.#replicas.add(replica)
    this.#all.push(replica)
    await replica.first('new-leader')
  }

  /**
   * From now on, new replicas are of the next generation.
   *
   * @param {number} leaderPosition how many replicas are replaced before the leader
   */
  beginRound(leaderPosition) {
    this.#generation += 1
    const leader = this.#leader()
    this.#old = [...this.#replicas].filter((replica) => replica !== leader)
    this.#old.splice(leaderPosition, 0, leader)
    this.#startsBefore = this.#starts()
    this.#gapsMs = []
  }

  /** The replicas that the round has not replaced yet. */
  get old() {
    return this.#old
  }

  /** Ends the next old replica. If it led, waits for the next leader. */
  async endNext() {
    const replica = this.#old.shift()
    if (!replica) throw new Error('every replica of this round has been replaced')
    const isLeader = replica === this.#leader()
    this.#replicas.delete(replica)
    const endedAtMs = Number(hrtime.bigint()) / 1e6
    const next = isLeader
      ? Promise.any([...this.#replicas].map((other) => other.first('started', { laterThanMs: endedAtMs })))
      : undefined
    await replica.kill('SIGTERM')
    if (next) this.#gapsMs.push((await next).monotonicMs - endedAtMs)
  }

  /** @returns {Round} */
  endRound() {
    return { changes: this.#starts() - this.#startsBefore, gapsMs: this.#gapsMs }
  }

  async end() {
    await Promise.all([...this.#replicas].map((replica) => replica.kill('SIGKILL')))
  }

  #starts() {
    return this.#all.flatMap(({ events }) => events).filter(({ event }) => event === 'started').length
  }

  #leader() {
    const leader = [...this.#replicas].find(({ events }) => leads(events))
    if (!leader) throw new Error('the fleet has no leader')
    return leader
  }
}

/**
 * Replaces all replicas of each fleet. The fleets go in step, so that nothing else happens while a fleet changes its
 * leader.
 *
 * @param {readonly RollingFleet[]} fleets
 * @param {object} options
 * @param {Strategy} options.strategy
 * @param {number} options.leaderPosition how many replicas are replaced before the leader
 * @param {() => Promise<unknown>} options.settle resolves when a new replica counts as ready
 */
export async function rollOut(fleets, { strategy, leaderPosition, settle }) {
  for (const fleet of fleets) fleet.beginRound(leaderPosition)
  const start = async () => {
    await Promise.all(fleets.map((fleet) => fleet.add()))
    await settle()
  }
  while (fleets.some(({ old }) => old.length > 0)) {
    if (strategy === 'start-first') await start()
    for (const fleet of fleets) await fleet.endNext()
    if (strategy === 'stop-first') await start()
  }
  return fleets.map((fleet) => fleet.endRound())
}

/**
 * @param {Record<'newer' | 'plain' | 'peer', (identity: string, generation: number) => Replica>} start
 * @param {import('./report.js').Report} figures
 * @param {object} options
 * @param {number} options.replicas
 * @param {number} options.rounds
 * @param {number} options.settleMs how long a new replica runs before the next one is ended
 * @param {number} options.betweenMs between two rounds
 * @param {string} options.detail
 */
export async function benchRolling(start, figures, { replicas, rounds, settleMs, betweenMs, detail }) {
  const names = { newer: 'Tenure, generation', plain: 'Tenure', peer: 'client-go' }
  const kinds = /** @type {const} */ (['newer', 'plain', 'peer'])
  const fleets = kinds.map((kind) => new RollingFleet(start[kind]))
  /** @type {Record<string, number | string>[]} */
  const rows = []
  try {
    for (let count = 0; count < replicas; count++) await Promise.all(fleets.map((fleet) => fleet.add()))
    for (const strategy of /** @type {const} */ (['stop-first', 'start-first'])) {
      console.log(`${rounds} rolling updates of ${replicas} replicas, ${strategy} ...`)
      /** @type {Round[][]} */
      const measured = kinds.map(() => [])
      for (let round = 0; round < rounds; round++) {
        await sleep(betweenMs)
        // Each position of the leader is equally frequent, so the average does not depend on chance.
        const options = { strategy, leaderPosition: round % replicas, settle: () => sleep(settleMs) }
        const results = await rollOut(fleets, options)
        results.forEach((result, index) => measured[index]?.push(result))
      }
      kinds.forEach((kind, index) => {
        const some = measured[index] ?? []
        const changes = some.map((round) => round.changes)
        const gapsMs = some.flatMap((round) => round.gapsMs)
        const average = changes.reduce((sum, count) => sum + count, 0) / some.length
        rows.push({
          strategy,
          contender: names[kind],
          'leader changes per round': Number(average.toFixed(2)),
          most: Math.max(...changes),
          'without a leader, median ms': Math.round(median(gapsMs)),
          'slowest ms': Math.round(Math.max(...gapsMs)),
        })
        if (kind !== 'newer') return
        figures.add({
          name: `rolling update, ${strategy}: leader changes`,
          value: average,
          unit: '',
          goal: 1.2,
          atMost: true,
          detail: `on average of ${rounds} rounds, with generation; ${detail}`,
        })
        figures.add({
          name: `rolling update, ${strategy}: without a leader, slowest`,
          value: Math.max(...gapsMs),
          unit: 'ms',
          goal: 100,
          detail: `from SIGTERM to the next leader, ${gapsMs.length} changes, median ${format(median(gapsMs))} ms`,
        })
      })
    }
  } finally {
    await Promise.all(fleets.map((fleet) => fleet.end()))
  }
  figures.addTable('rolling updates', rows)
}
