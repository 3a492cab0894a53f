// A candidate on the file store, in its own process. It reports when its belief starts, on the machine's clock.
import { hrtime } from 'node:process'
import { Elector } from 'tenure'
import { fileStore } from 'tenure/stores/file'

/** @typedef {{ type: 'ready' | 'elected' | 'releases', atMs: number }} Message */

const [, , directory = '', identity] = process.argv
const elector = new Elector({
  store: fileStore({ directory }),
  election: 'bench',
  identity,
  observer: {
    onEvent: ({ type }) => {
      if (type === 'new-leader') tell('ready')
      if (type === 'elected') tell('elected')
    },
  },
})

/** @param {Message['type']} type */
function tell(type) {
  process.send?.({ type, atMs: Number(hrtime.bigint()) / 1e6 })
}

process.on('message', () => {
  tell('releases')
  // Long enough to skip this round, and short enough to stand by in the next one.
  void elector.stepDown({ cooldownMs: 200 })
})
process.on('disconnect', () => process.exit())
elector.start()
