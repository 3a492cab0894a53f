// Leads twice in each named store, steps down in between, and reports what happened. Every runtime runs it.
import { Elector } from 'tenure'
import { openStore } from 'tenure/stores'

// The other entry points must at least load.
await import('tenure/fencing')
await import('tenure/kubernetes')
await import('tenure/store-kit')
await import('@tenure/testing')
await import('@tenure/testing/conformance')
await import('@tenure/testing/simulation')

/** @param {string} url */
async function leadTwice(url) {
  const store = await openStore(url)
  // Collects what a standby observes in the meantime.
  const watched = new AbortController()
  const seen = new Set()
  const watching = (async () => {
    for await (const record of store.watch?.('jobs', watched) ?? []) seen.add(record?.term)
  })()
  /** @type {(error: unknown) => void} */
  let fail = () => {}
  const failed = new Promise((_, reject) => (fail = reject))
  /** @param {import('tenure').ElectionEvent} event */
  const onEvent = (event) => event.type === 'error' && fail(event.error)
  const elector = new Elector({ store, election: 'jobs', identity: 'ada', observer: { onEvent } })
  const lead = async () => {
    const first = await elector.waitForLeadership()
    await first.setCheckpoint(`of term ${first.term}`)
    await elector.stepDown({ cooldownMs: 0 })
    const { checkpoint, term } = await elector.waitForLeadership()
    return { first: first.term, second: term, checkpoint, watched: seen.has(first.term) }
  }
  elector.start()
  try {
    return await Promise.race([lead(), failed])
  } finally {
    await elector.stop()
    watched.abort()
    await watching
    await store.close?.()
  }
}

for (const url of process.argv.slice(2)) {
  const told = await leadTwice(url).catch(({ code, message }) => ({ code, message }))
  console.log(JSON.stringify(told))
}
