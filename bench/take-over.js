// Measures how long after a leader's death or release the next one believes that it leads, with real processes on the
// file store.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, fsyncSync, mkdtempSync, openSync, readdirSync, renameSync, rmSync, writeSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hrtime } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'

const candidate = join(import.meta.dirname, 'candidate.js')
// By then a standby is connected to the leader's socket.
const settleMs = 400

/** @typedef {import('node:child_process').ChildProcess} ChildProcess */

/** @param {number} rounds */
export async function measureTakeOvers(rounds) {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
  const fleet = new Fleet(directory)
  try {
    for (const name of ['a', 'b', 'c']) await fleet.add(name)
    const killed = []
    const released = []
    const writesMs = []
    for (let round = 0; round < rounds; round++) {
      killed.push(await fleet.killLeader(`again-${round}`))
      released.push(await fleet.releaseLeader())
      writesMs.push(writeByHand(directory))
    }
    return { killed, released, writesMs }
  } finally {
    await fleet.end()
    rmSync(directory, { recursive: true, force: true })
  }
}

/**
 * Makes the same disk writes as a handover: the released record, and then, durably, the next term and the next record.
 * Returns the time that this disk takes.
 *
 * @param {string} directory
 */
function writeByHand(directory) {
  const startedMs = performance.now()
  for (const isDurable of [false, true, true]) {
    const file = openSync(join(directory, 'by-hand.tmp'), 'w')
    writeSync(file, 'x'.repeat(500))
    fsyncSync(file)
    closeSync(file)
    renameSync(join(directory, 'by-hand.tmp'), join(directory, 'by-hand'))
    if (!isDurable) continue
    const folder = openSync(directory, 'r')
    fsyncSync(folder)
    closeSync(folder)
  }
  return performance.now() - startedMs
}

class Fleet {
  /** @type {Set<ChildProcess>} */
  #children = new Set()
  /** @type {ChildProcess | undefined} */
  #leader
  /** @type {((atMs: number) => void) | undefined} */
  #onElected
  /** @type {((atMs: number) => void) | undefined} */
  #onRelease
  #directory

  /** @param {string} directory */
  constructor(directory) {
    this.#directory = directory
  }

  /** @param {string} name */
  async add(name) {
    const child = fork(candidate, [this.#directory, name])
    this.#children.add(child)
    child.once('exit', () => this.#children.delete(child))
    const ready = new Promise((resolve) => child.once('message', resolve))
    child.on('message', (/** @type {import('./candidate.js').Message} */ { type, atMs }) => {
      if (type === 'releases') this.#onRelease?.(atMs)
      if (type !== 'elected') return
      this.#leader = child
      this.#onElected?.(atMs)
    })
    await ready
    await sleep(settleMs)
  }

  /**
   * Kills the leader and then replaces it. For comparison, also measures when the kernel notified this process of the
   * same death, over a connection like those of the standbys.
   *
   * @param {string} successor
   */
  async killLeader(successor) {
    const line = await this.#connectToLeader()
    const noticed = new Promise((resolve) => line.once('close', () => resolve(machineMs())))
    const elected = new Promise((resolve) => (this.#onElected = resolve))
    const killedAtMs = machineMs()
    this.#leader?.kill('SIGKILL')
    const [electedAtMs, noticedAtMs] = await Promise.all([elected, noticed])
    await this.add(successor)
    return { takeOverMs: electedAtMs - killedAtMs, kernelMs: noticedAtMs - killedAtMs }
  }

  async releaseLeader() {
    const released = new Promise((resolve) => (this.#onRelease = resolve))
    const elected = new Promise((resolve) => (this.#onElected = resolve))
    this.#leader?.send('step down')
    const [electedAtMs, releasedAtMs] = await Promise.all([elected, released])
    await sleep(settleMs)
    return electedAtMs - releasedAtMs
  }

  async end() {
    const children = [...this.#children]
    const exits = children.map((child) => once(child, 'exit'))
    for (const child of children) child.kill('SIGKILL')
    await Promise.all(exits)
  }

  /** Once all candidates have settled, only the leader's socket exists. */
  async #connectToLeader() {
    const name = readdirSync(this.#directory).find((file) => file.endsWith('.sock'))
    const line = connect(join(this.#directory, String(name)))
    await once(line, 'connect')
    line.on('error', () => {})
    return line.resume()
  }
}

function machineMs() {
  return Number(hrtime.bigint()) / 1e6
}
