// One candidate, in a process of its own. It campaigns, and tells its parent what happens.
import { hrtime } from 'node:process'
import { Elector } from 'tenure'
import { fileStore } from 'tenure/stores/file'

/**
 * @typedef {object} Status
 * @property {'status'} type
 * @property {number} atMs
 * @property {boolean} isLeader
 * @property {number} term of the last record seen
 * @property {number} leaseEndsInMs
 * @property {string} summary
 */
/** @typedef {{ type: 'elected', atMs: number, term: number }} Elected */
/** @typedef {{ type: 'lost', atMs: number, term: number, reason: string }} Lost */
/** @typedef {{ type: 'error', atMs: number, message: string }} Failed */
/** @typedef {Status | Elected | Lost | Failed} Report what a candidate tells; `atMs` is the same in every process */

const [, , directory, identity, leaseDurationMs] = process.argv

const store = fileStore({ directory: String(directory) })
const elector = new Elector({
  store,
  election: 'demo',
  identity,
  leaseDurationMs: Number(leaseDurationMs),
  observer: { onEvent: report },
})

/** @param {import('tenure').ElectionEvent} event */
function report(event) {
  const atMs = Number(hrtime.bigint()) / 1e6
  if (event.type === 'elected') tell({ type: 'elected', atMs, term: event.term })
  if (event.type === 'lost') tell({ type: 'lost', atMs, term: event.term, reason: event.reason })
  if (event.type === 'error' || event.type === 'renew-failed') {
    tell({ type: 'error', atMs, message: event.error instanceof Error ? event.error.message : String(event.error) })
  }
}

function tellStatus() {
  const explanation = elector.explain()
  const { isLeader, leaseEndsInMs = 0 } = explanation
  const atMs = Number(hrtime.bigint()) / 1e6
  const summary = inShort(explanation)
  tell({ type: 'status', atMs, isLeader, term: elector.leader()?.term ?? 0, leaseEndsInMs, summary })
}

/**
 * The usual cases in words that fit into a line of 80 columns; the library's own words for all others.
 * @param {import('tenure').Explanation} explanation
 */
function inShort({ phase, isLeader, term, leader, leaseEndsInMs = 0, lastErrors, summary }) {
  const left = `${(leaseEndsInMs / 1000).toFixed(1)} s`
  if (lastErrors.length > 0) return summary
  if (isLeader) return `leads term ${term}: ${left} unless renewed`
  if (phase === 'standby' && leader) return `waits for ${leader.holder}, term ${leader.term}: ${left} unless renewed`
  return summary
}

/** @param {Report} message */
function tell(message) {
  if (process.connected) process.send?.(message)
}

async function stop() {
  await elector.stop()
  await store.close?.()
  process.exit()
}

// The only order there is.
process.on('message', () => void stop())
// Without its parent nobody would end it.
process.on('disconnect', () => process.exit())
// Ctrl-C reaches the whole group; the parent decides what follows from it.
process.on('SIGINT', () => {})

elector.start()
setInterval(tellStatus, 100)
