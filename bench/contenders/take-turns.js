// What the contenders have in common.
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * `ready`: it takes part, and has seen who leads where it can. `lost`: its own API says that it leads no longer.
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
 * Takes part in an election, and gives what releases it.
 *
 * @typedef {(part: Part) => Promise<() => unknown>} TakePart
 */

/** Long enough to stay out of a round, short enough to stand by in the next one. */
export const cooldownMs = 200

/**
 * Campaigns again after each release.
 *
 * @param {() => Promise<() => unknown>} acquire resolves as soon as it leads, with what gives that back
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
