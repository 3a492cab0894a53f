// Leads, and works in rounds that wait in every way that accepts a signal. Reports each round with its time.
import { EventEmitter, once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { lead } from 'tenure'
import { fileStore } from 'tenure/stores/file'

const [directory = '', identity = '', url = ''] = process.argv.slice(2)
const roundMs = 50

const ticks = new EventEmitter()
setInterval(() => ticks.emit('tick'), roundMs)

/** @type {Record<string, (signal: AbortSignal, either: AbortSignal) => Promise<unknown>>} */
const waits = {
  'timers/promises': (signal) => sleep(roundMs, undefined, { signal }),
  fetch: async (signal) => (await fetch(url, { signal })).text(),
  'events.once': (signal) => once(ticks, 'tick', { signal }),
  'AbortSignal.any': (_, either) => sleep(roundMs, undefined, { signal: either }),
}

await lead({ store: fileStore({ directory }), election: 'e', identity, leaseDurationMs: 4_000 }, async ({ signal }) => {
  const either = AbortSignal.any([signal, AbortSignal.timeout(3_600_000)])
  process.send?.({ type: 'leads' })
  await Promise.allSettled(
    Object.entries(waits).map(async ([kind, wait]) => {
      while (!signal.aborted) {
        process.send?.({ type: 'round', kind, at: String(process.hrtime.bigint()) })
        await wait(signal, either)
      }
    }),
  )
  process.send?.({ type: 'ended', reason: signal.reason?.reason })
})
