// A process with its own file store, controlled by messages. Replies contain the time on the machine's clock.
import { readdirSync, unlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { Elector } from 'tenure'
import { fileStore } from 'tenure/stores/file'

/** @type {import('tenure').LeaseStore} */
let store
/** @type {import('tenure/stores/file').LivenessSocket | undefined} */
let served
/** @type {Elector} */
let elector

const never = () => ({ signal: new AbortController().signal })

/** @type {Record<string, (value: any) => unknown>} */
const commands = {
  open: (options) => void (store = fileStore(options)),
  serve: async (path) => {
    const server = createServer((socket) => socket.on('error', () => {}))
    await new Promise((resolve) => server.listen({ path, exclusive: true }, () => resolve(undefined)))
    served = {
      path,
      close: () => {
        unlinkSync(path)
        server.close()
      },
    }
  },
  stopServing: () => served?.close(),
  acquire: (claim) => store.acquire(claim, never()),
  renew: (claim) => store.renew(claim, never()),
  release: (claim) => store.release(claim, never()),
  read: (election) => store.read(election, never()),
  close: () => store.close?.(),
  descriptors: () => readdirSync('/proc/self/fd').length,
  /** Leads once while a watch is open. */
  leadWatched: async (claim) => {
    const controller = new AbortController()
    const watching = (async () => {
      for await (const record of store.watch?.(claim.election, controller) ?? []) {
        if (record?.released && record.attempt === claim.attempt) return
      }
    })()
    const won = await store.acquire(claim, never())
    if (!won.ok) throw new Error('a free lease was refused')
    await store.release(won.record, never())
    await watching
    controller.abort()
    return won.record.term
  },
  campaign: (election) => {
    elector = new Elector({ store, election })
    elector.start()
  },
  leaderTerm: () => elector.leader()?.term,
  lead: async () => (await elector.waitForLeadership()).term,
  stop: () => elector.stop(),
  /** Leads repeatedly, and increments the checkpoint of the lease each time. */
  countUp: async ({ election, rounds }) => {
    const holder = `process ${process.pid}`
    const terms = []
    for (let afterTerm = 0, tries = 0; terms.length < rounds; tries++) {
      const attempt = `${holder} ${tries}`
      const claim = { election, holder, attempt, leaseDurationMs: 60_000, afterTerm, metadata: {} }
      const won = await store.acquire(claim, never())
      afterTerm = won.ok ? won.record.term : won.highestTerm
      if (!won.ok) continue
      process.send?.({ term: won.record.term })
      const checkpoint = String(Number(won.record.checkpoint) + 1)
      const renewed = await store.renew({ ...won.record, checkpoint }, never())
      if (!renewed.ok) throw new Error('a held lease was not renewed')
      const released = await store.release(renewed.record, never())
      if (!released.ok) throw new Error('a held lease was not released')
      terms.push(won.record.term)
    }
    return terms
  },
}

/** @param {{ id: number, command: string, value: unknown }} message */
async function answer({ id, command, value }) {
  const atMs = () => Number(process.hrtime.bigint()) / 1e6
  try {
    const result = await commands[command]?.(value)
    process.send?.({ id, result, atMs: atMs() })
  } catch (error) {
    const { name, message, code } = /** @type {NodeJS.ErrnoException} */ (error)
    process.send?.({ id, error: { name, message, code }, atMs: atMs() })
  }
}

process.on('message', (/** @type {any} */ message) => void answer(message))
