// Tenure on the store that the URL names.
import { Elector } from 'tenure'
import { openStore } from 'tenure/stores'
import { cooldownMs } from './take-turns.js'

/** @type {Record<string, import('./take-turns.js').Told['event']>} */
const events = { 'new-leader': 'ready', elected: 'started', renewed: 'renewed', lost: 'lost' }

/** @type {import('./take-turns.js').TakePart} */
export async function takePart({ url, election, identity, leaseDurationMs, tell }) {
  const elector = new Elector({
    store: await openStore(url),
    election,
    identity,
    leaseDurationMs,
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
