// Tenure on the store that the URL names.
import { Elector } from 'tenure'
import { openStore } from 'tenure/stores'
import { cooldownMs } from './take-turns.js'

/** @type {Record<string, import('./take-turns.js').Told['event']>} */
const events = { 'new-leader': 'ready', elected: 'started', renewed: 'renewed', lost: 'lost' }

/** @type {import('./take-turns.js').TakePart} */
export function takePart(part) {
  return takePartWith(part, {})
}

/**
 * @param {import('./take-turns.js').Part} part
 * @param {Pick<import('tenure').ElectorOptions, 'releaseOnCrash'>} options
 */
export async function takePartWith({ url, election, identity, leaseDurationMs, tell }, options) {
  const elector = new Elector({
    store: await openStore(url),
    election,
    identity,
    leaseDurationMs,
    ...options,
    observer: {
      onEvent: ({ type }) => {
        const event = events[type]
        if (event) tell(event)
      },
    },
  })
  elector.start()
  return () => elector.stepDown({ cooldownMs })
}
