// A process whose electors have a guard, in situations that may cost only the fast takeover.
import { closeSync, openSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Elector, memoryStore } from '../../../dist/index.js'

// The guard cannot reach its store, which does not matter here.
const releaseOnCrash = { storeUrl: 'redis://127.0.0.1:1' }
const store = memoryStore()
let count = 0

/** @param {number} many @param {object} more */
const start = (many, more = {}) =>
  Array.from({ length: many }, () => {
    count += 1
    const elector = new Elector({ store, election: `jobs-${count}`, releaseOnCrash, log: false, ...more })
    elector.start()
    return elector
  })

/** The process ids of the guards. */
const guards = () =>
  readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8')
    .split(' ')
    .filter((id) => id.trim() !== '' && readFileSync(`/proc/${id}/cmdline`, 'utf8').includes('guard'))
    .map(Number)

/** @type {Record<string, () => Promise<unknown>>} */
const scenes = {
  async 'no free descriptor'() {
    const taken = []
    try {
      for (;;) taken.push(openSync('/dev/null', 'r'))
    } catch {
      // Every descriptor is taken now.
    }
    const electors = start(1)
    await electors[0]?.waitForLeadership()
    const explained = electors[0]?.explain()
    for (const descriptor of taken) closeSync(descriptor)
    return { leads: electors[0]?.isLeader(), releaseOnCrash: explained?.releaseOnCrash }
  },
  async 'many electors at once'() {
    const electors = start(500)
    await Promise.all(electors.map((elector) => elector.waitForLeadership()))
    return { leading: electors.filter((elector) => elector.isLeader()).length }
  },
  async 'a paused guard'() {
    await start(1)[0]?.waitForLeadership()
    for (const id of guards()) process.kill(id, 'SIGSTOP')
    const electors = start(1_500)
    await Promise.all(electors.map((elector) => elector.waitForLeadership()))
    const { releaseOnCrash: status } = electors[0]?.explain() ?? {}
    for (const id of guards()) process.kill(id, 'SIGKILL')
    return { leading: electors.filter((elector) => elector.isLeader()).length, releaseOnCrash: status }
  },
  async 'a stop without a release'() {
    const [elector] = start(1, { releaseOnStop: false })
    await elector?.waitForLeadership()
    const before = guards().length
    await elector?.stop()
    while (guards().length > 0) await sleep(20)
    return { before, after: guards().length }
  },
}

const answer = await scenes[process.argv[2] ?? '']?.()
// Exits only after the answer was written.
process.send?.(answer, () => process.exit(0))
