// The requests that benchmarks of the service send, and how two servers are compared.
import { setTimeout as sleep } from 'node:timers/promises'
import { drive, openMany } from './http-connection.js'
import { format, median } from './numbers.js'

/** @typedef {import('./http-connection.js').Connection} Connection */

export const hourMs = 3_600_000
const campaignBody = JSON.stringify({ node_id: 'node-1', lease_ttl_ms: hourMs })

/**
 * Returns how many answers `theirs` gives for one of `ours`. The two take turns, so that a noisy moment affects both.
 * @typedef {(connection: Connection, index: number) => Promise<unknown>} Send
 * @param {{ ours: Connection[], theirs: Connection[], sendOurs: Send, sendTheirs: Send }} sides
 * @param {{ roundMs: number, rounds: number }} length
 */
export async function compare({ ours, theirs, sendOurs, sendTheirs }, { roundMs, rounds }) {
  // Both sides warm up first.
  await drive(ours, roundMs / 2, sendOurs)
  await drive(theirs, roundMs / 2, sendTheirs)
  const turns = []
  for (let round = 0; round < rounds; round++) {
    const { perSecond: peer } = await drive(theirs, roundMs, sendTheirs)
    const { perSecond: own } = await drive(ours, roundMs, sendOurs)
    turns.push({ peer, own })
  }
  const perSecond = [turns.map(({ peer }) => peer), turns.map(({ own }) => own)].map((all) => format(median(all)))
  return { ratio: median(turns.map(({ peer, own }) => peer / own)), perSecond: perSecond.join(' and ') }
}

/** @param {Connection} connection @param {string} group */
export function campaign(connection, group) {
  return connection.post(`/v1/groups/${group}/campaign`, campaignBody)
}

/** A write directly to etcd. @param {Connection} connection @param {string} key */
export function put(connection, key) {
  const [name, value] = [key, campaignBody].map((text) => Buffer.from(text).toString('base64'))
  return connection.post('/v3/kv/put', JSON.stringify({ key: name, value }))
}

/** @param {number} index */
export function groupName(index) {
  return `group-${index}`
}

/**
 * Creates this many groups with one leader each.
 * @param {string} url
 * @param {number} count
 */
export async function fill(url, count) {
  let next = 0
  const connections = await openMany(url, Math.min(count, 256))
  await Promise.all(
    connections.map(async (connection) => {
      while (next < count) {
        if (next % 100_000 === 0 && next > 0) console.log(`${next} groups ...`)
        const group = groupName(next++)
        // A failover in between takes time, but does not change later figures.
        while (!(await campaign(connection, group).catch(() => undefined))) await sleep(100)
      }
    }),
  )
  for (const connection of connections) connection.close()
}
