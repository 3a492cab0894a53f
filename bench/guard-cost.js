// Measures what a guard process costs: its memory, the start of a leader, and each renewal.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { format, median } from './numbers.js'

/** The kernel counts processor time in these ticks. */
const tickUs = 10_000
const renewIntervalMs = 20

/**
 * @typedef {{ type: 'steady' } | { type: 'done', electedMs: number, cpuUs: number, renewalMs: number[] }} Message
 * @typedef {object} Cost
 * @property {number} electedMs from the start of the elector to its leadership
 * @property {number} cpuUs processor time of the leader for a renewal
 * @property {number} renewalMs the median time of a renewal
 * @property {{ rssMb: number, privateMb: number, startMs: number, cpuUs: number } | undefined} guard the guard's memory,
 *   its processor time until it was connected, and for a renewal
 */

/**
 * @param {import('./report.js').Report} figures
 * @param {{ place: import('./store-places.js').Place, server: { port: number } }[]} servers
 * @param {boolean} quick
 */
export async function benchGuard(figures, servers, quick) {
  console.log('the guard ...')
  for (const { place, server } of servers) {
    const url = place.url(server.port)
    /** @type {{ bare: Cost, guarded: Cost }[]} */
    const rounds = []
    for (let round = 0; round < (quick ? 1 : 5); round++) {
      const bare = await measureLeader(url, false, quick)
      rounds.push({ bare, guarded: await measureLeader(url, true, quick) })
    }
    report(figures, place.name, rounds)
  }
}

/**
 * @param {import('./report.js').Report} figures
 * @param {string} name
 * @param {{ bare: Cost, guarded: Cost }[]} rounds
 */
function report(figures, name, rounds) {
  const of = (/** @type {(round: { bare: Cost, guarded: Cost }) => number | undefined} */ value) =>
    median(rounds.map((round) => value(round) ?? NaN))
  figures.add({
    name: `${name}: the guard's resident memory`,
    value: of(({ guarded }) => guarded.guard?.rssMb),
    unit: 'MB',
    goal: 70,
    detail: `private ${format(of(({ guarded }) => guarded.guard?.privateMb))} MB; the rest is shared with other processes of Node.js`,
  })
  figures.add({
    name: `${name}: start to leadership with the guard`,
    value: of(({ bare, guarded }) => guarded.electedMs - bare.electedMs),
    unit: 'ms',
    goal: 50,
    detail: `more than without it, which takes ${format(of(({ bare }) => bare.electedMs))} ms; the guard itself takes ${format(of(({ guarded }) => guarded.guard?.startMs))} ms of a processor to start`,
  })
  figures.add({
    name: `${name}: processor time of a renewal with the guard`,
    value: of(({ bare, guarded }) => (guarded.cpuUs + (guarded.guard?.cpuUs ?? NaN)) / bare.cpuUs),
    unit: 'x',
    goal: 1.5,
    detail: `of one without: ${format(of(({ guarded }) => guarded.cpuUs))} us in the leader and ${format(of(({ guarded }) => guarded.guard?.cpuUs))} us in the guard, to ${format(of(({ bare }) => bare.cpuUs))} us; a renewal takes ${format(of(({ guarded }) => guarded.renewalMs))} and ${format(of(({ bare }) => bare.renewalMs))} ms`,
  })
}

/**
 * @param {string} url
 * @param {boolean} isGuarded
 * @param {boolean} quick
 * @returns {Promise<Cost>}
 */
async function measureLeader(url, isGuarded, quick) {
  const steadyMs = quick ? 500 : 10_000
  const args = [url, isGuarded ? 'guarded' : 'bare', renewIntervalMs, steadyMs].map(String)
  const child = fork(join(import.meta.dirname, 'guard-candidate.js'), args)
  const exited = once(child, 'exit')
  try {
    await nextMessage(child)
    const guard = isGuarded ? guardOf(child.pid ?? 0) : undefined
    const startUs = guard === undefined ? 0 : cpuUsOf(guard)
    const done = await nextMessage(child)
    if (done.type !== 'done') throw new Error('the leader did not report its renewals')
    const { electedMs, cpuUs, renewalMs } = done
    const each = (/** @type {number} */ us) => us / renewalMs.length
    return {
      electedMs,
      cpuUs: each(cpuUs),
      renewalMs: median(renewalMs),
      guard:
        guard === undefined
          ? undefined
          : {
              ...memoryOf(guard),
              startMs: startUs / 1_000,
              cpuUs: each(cpuUsOf(guard) - startUs),
            },
    }
  } finally {
    if (child.connected) child.send('stop')
    await exited
  }
}

/** @param {import('node:child_process').ChildProcess} child @returns {Promise<Message>} */
async function nextMessage(child) {
  const ended = once(child, 'exit').then(() => {
    throw new Error('the leader ended before it reported anything')
  })
  const [message] = await Promise.race([once(child, 'message'), ended])
  return message
}

/** The process that a leader has started. @param {number} leader */
function guardOf(leader) {
  const guard = readdirSync('/proc').find((name) => /^\d+$/.test(name) && parentOf(Number(name)) === leader)
  if (guard === undefined) throw new Error('the leader has no guard')
  return Number(guard)
}

/** @param {number} pid */
function parentOf(pid) {
  try {
    return Number(statOf(pid)[1])
  } catch {
    // The process has ended.
    return undefined
  }
}

/** @param {number} pid */
function cpuUsOf(pid) {
  const fields = statOf(pid)
  return (Number(fields[11]) + Number(fields[12])) * tickUs
}

/** The fields after the name of the program, which may contain spaces. @param {number} pid */
function statOf(pid) {
  return readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
}

/** @param {number} pid */
function memoryOf(pid) {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  const megabytes = (/** @type {string} */ name) => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(text)?.[1]) / 1_000
  return { rssMb: megabytes('Rss'), privateMb: megabytes('Private_Clean') + megabytes('Private_Dirty') }
}
