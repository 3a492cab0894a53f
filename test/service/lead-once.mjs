// lead-once.mjs URL ELECTION: leads once, with a standby in the same process, and closes nothing.
import { Elector, lead } from 'tenure'
import { serviceStore } from 'tenure/stores/service'

const [, , url = '', election = ''] = process.argv
await lead({ store: serviceStore({ url }), election }, async ({ term }) => {
  const standby = new Elector({ store: serviceStore({ url }), election })
  standby.start()
  for (;;) {
    if (standby.leader()) break
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  await standby.stop()
  console.log(`led in term ${term}, seen by a standby`)
})
