// Code that all contenders share.
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * `ready`: the candidate takes part and, if it can, knows the leader. `lost`: its own API reports that it no longer
 * leads.
 *
 * @typedef {{ event: 'ready' | 'started' | 'renewed' | 'releases' | 'lost', monotonicMs: number }} Told
 * @typedef {object} Part
 * @property {string} url
 * @property {string} election
 * @property {string} identity
 * @property {number} leaseDurationMs
 * @property {(event: Told['event']) => void} tell
 */

/**
 * Takes part in an election. Resolves with a function that releases the leadership.
 *
 * @typedef {(part: Part) => Promise<() => unknown>} TakePart
 */

/** Long enough to skip a round, and short enough to stand by in the next one. */
export const cooldownMs = 200

/**
 * Campaigns again after each release.
 *
 * @param {() => Promise<() => unknown>} acquire resolves with a release function as soon as it leads
 * @param {Part['tell']} tell
 */
export function takeTurns(acquire, tell) {
  let release = () => {}
  const campaign = async () => {
    for (;;) {
      const giveBack = await acquire()
      const released = new Promise((resolve) => (release = () => resolve(undefined)))
      tell('started')
      await released
      await giveBack()
      await sleep(cooldownMs)
    }
  }
  tell('ready')
  void campaign()
  return () => release()
}
