// Measures what a renewal costs compared with a handwritten compare-and-swap through the same client.
import { randomUUID } from 'node:crypto'
import { openStore } from 'tenure/stores'
import { median } from './numbers.js'

/** The number of consecutive calls of one kind. With fewer, each call would find its server's process asleep. */
const inTurn = 10

/**
 * The kinds of call take turns, so that a noisy moment affects all of them.
 *
 * @param {import('./store-places.js').Place} place
 * @param {string} url
 * @param {number} turns
 */
export async function measureRenewals(place, url, turns) {
  const store = await openStore(url)
  const bare = await place.openBare(url)
  const call = { signal: AbortSignal.timeout(120_000), timeoutMs: 30_000 }
  const claim = { election: 'renewals', holder: 'bench', attempt: randomUUID(), leaseDurationMs: 3_600_000 }
  const acquired = await store.acquire({ ...claim, afterTerm: 0, metadata: {} }, call)
  if (!acquired.ok) throw new Error(`${place.name}: the lease was not acquired`)
  let { record } = acquired
  const text = JSON.stringify(record)
  const renew = async () => {
    const { term, version } = record
    const renewed = await store.renew({ ...claim, term, version, writeId: randomUUID() }, call)
    if (!renewed.ok) throw new Error(`${place.name}: the lease was not renewed`)
    record = renewed.record
  }
  const renewals = new Timings(renew)
  const swaps = new Timings(() => bare.swap(text))
  const writes = new Timings(() => bare.write(text))
  for (let turn = 0; turn < turns; turn++) {
    for (const timings of [renewals, swaps, writes]) await timings.takeTurn()
  }
  await Promise.all([store.close?.(), bare.close()])
  return { renewalMs: renewals.median(), swapMs: swaps.median(), writeMs: writes.median() }
}

class Timings {
  /** @type {number[]} */
  #tookMs = []
  #call

  /** @param {() => Promise<unknown>} call */
  constructor(call) {
    this.#call = call
  }

  async takeTurn() {
    for (let count = 0; count < inTurn; count++) {
      const startedMs = performance.now()
      await this.#call()
      this.#tookMs.push(performance.now() - startedMs)
    }
  }

  /** The median without the first fifth, which is warm-up. */
  median() {
    return median(this.#tookMs.slice(this.#tookMs.length / 5))
  }
}
