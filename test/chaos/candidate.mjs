// One process of a fleet. It campaigns, increments the guarded counter while it leads, and logs when it believes that
// it leads.
import { openSync, writeSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

/** @type {import('./fleet.ts').CandidateOptions} */
const options = JSON.parse(process.argv[2] ?? '')
const { identity, election, place, guardPath, logPath, originNs, library, dawdleMs, timings } = options

/**
 * @param {string} name
 * @param {string} file
 */
const load = (name, file) => import(library ? pathToFileURL(`${library}/${file}`).href : name)

/** @type {typeof import('tenure')} */
const { Elector } = await load('tenure', 'index.js')

const origin = BigInt(originNs)
/** The machine's monotonic clock, which all processes share. */
const now = () => Number(process.hrtime.bigint() - origin)

const logFile = openSync(logPath, 'a')
/** @param {import('./check-logs.ts').Entry} entry */
const log = (entry) => void writeSync(logFile, `${JSON.stringify(entry)}\n`)

/** @param {unknown} message */
const tell = (message) => void (process.connected && process.send?.(message))

// The store, and the faults between it and the elector.

let heldUntilMs = 0
let replyDelayMs = 0
const store = await openStore()

/** @returns {Promise<import('tenure').LeaseStore>} */
async function openStore() {
  if (place.store === 'file') {
    /** @type {typeof import('tenure/stores/file')} */
    const { fileStore } = await load('tenure/stores/file', 'stores/file/index.js')
    return fileStore({ directory: place.directory })
  }
  if (place.store === 'url') {
    /** @type {typeof import('tenure/stores')} */
    const stores = await load('tenure/stores', 'stores/index.js')
    return stores.openStore(place.url)
  }
  /** @type {[typeof import('tenure/stores/kubernetes'), typeof import('tenure/kubernetes')]} */
  const [{ kubernetesStore }, { fromKubeConfig }] = await Promise.all([
    load('tenure/stores/kubernetes', 'stores/kubernetes/index.js'),
    load('tenure/kubernetes', 'api/kubernetes.js'),
  ])
  return kubernetesStore({ client: fromKubeConfig(place.kubeConfig), namespace: place.namespace })
}

/**
 * A delayed call still reaches the store, whether or not the caller is still waiting for it.
 * @template {[claim: any, options: import('tenure').CallOptions]} Arguments
 * @template Result
 * @param {(...call: Arguments) => Promise<Result>} verb
 * @returns {(...call: Arguments) => Promise<Result>}
 */
function faulty(verb) {
  return async (...[claim, options]) => {
    const heldMs = heldUntilMs - performance.now()
    if (heldMs > 0) await delay(heldMs)
    const call = /** @type {Arguments} */ ([claim, heldMs > 0 ? { signal: new AbortController().signal } : options])
    const result = await verb(...call)
    if (replyDelayMs > 0) await delay(replyDelayMs)
    return result
  }
}

/** @type {import('tenure').LeaseStore} */
const faultyStore = {
  expiry: store.expiry,
  terms: store.terms,
  read: faulty((...call) => store.read(...call)),
  acquire: faulty((...call) => store.acquire(...call)),
  renew: faulty((...call) => store.renew(...call)),
  release: faulty((...call) => store.release(...call)),
  ...(store.watch && { watch: store.watch.bind(store) }),
}

// Belief

/** @type {import('tenure').Leadership | undefined} */
let leadership
/** Obtained at the start of the term and kept, as real work does. @type {AbortSignal | undefined} */
let signal
let stopping = false

/** The guard opens the store itself, because it cannot know which store is behind the faults. */
const releaseOnCrash = options.releaseOnCrash && place.store === 'url' ? { storeUrl: place.url } : false
const observer = { onEvent }
const elector = new Elector({ store: faultyStore, election, identity, ...timings, releaseOnCrash, observer })

/** @param {import('tenure').ElectionEvent} event */
function onEvent(event) {
  if (event.type === 'elected') {
    log({ kind: 'elected', term: event.term, at: now() })
    ask(event.term, () => elector.isLeader())
    elector.waitForLeadership().then(lead, () => {})
  }
  if (event.type === 'lost') {
    const aborted = leadership?.term !== event.term || signal?.aborted === true
    log({ kind: 'lost', term: event.term, reason: event.reason, at: now(), clean: aborted && !elector.isLeader() })
  }
  if (event.type === 'error' || event.type === 'renew-failed') {
    const { error } = event
    log({
      kind: 'error',
      code: error instanceof Error && 'code' in error ? String(error.code) : String(error),
      at: now(),
    })
  }
  if ('term' in event) tell({ event: event.type, term: event.term, at: now() })
  if (event.type === 'new-leader') tell({ event: event.type, term: event.record.term, at: now() })
}

/**
 * A true answer was true at some moment between the two times, because a pause may come anywhere in between.
 * @param {number} term
 * @param {() => boolean} isLeader
 */
function ask(term, isLeader) {
  const from = now()
  const leads = isLeader()
  const to = now()
  if (leads) log({ kind: 'belief', term, from, to })
  return { from, leads }
}

/** How long to block between the timers of one turn, before the next sample. */
let stallMs = 0

function sample() {
  if (stopping) return
  if (stallMs > 0) setTimeout(block, 4, stallMs)
  stallMs = 0
  setTimeout(sample, 4)
  const [asked, held] = [leadership, signal]
  if (!asked || !held) return
  const { from, leads } = ask(asked.term, () => asked.isLeader())
  if (leads) return
  // Timers run in the order in which they are due, so every timer that was due at the question has run before this one,
  // wherever a pause came. Turns of the loop prove nothing: Node reads the clock once for all timers of a turn, and
  // after a pause within that turn it runs the rest a millisecond later, which takes many turns.
  setTimeout(() => {
    if (!held.aborted) log({ kind: 'belief', term: asked.term, from, to: from, by: 'signal' })
  }, 5)
}

// Work

const guard = connect(guardPath)
/** @type {((answer: import('./guard.ts').GuardAnswer) => void)[]} */
const questions = []
createInterface(guard)
  .on('line', (line) => questions.shift()?.(JSON.parse(line)))
  .on('error', () => {})

/**
 * @param {import('./guard.ts').GuardRequest['verb']} verb
 * @param {number} term
 * @param {number} [value]
 * @returns {Promise<import('./guard.ts').GuardAnswer>}
 */
function askGuard(verb, term, value) {
  guard.write(`${JSON.stringify({ verb, term, value, pid: process.pid })}\n`)
  return new Promise((resolve) => questions.push(resolve))
}

/**
 * Writes once the guard has seen a higher term. On a busy machine a successor may need seconds to reach the guard, which
 * until then has no reason to refuse a late write.
 * @param {number} term
 * @param {number} value
 */
async function writeLate(term, value) {
  for (let tries = 0; tries < 400 && (await askGuard('read', term)).ok; tries++) await delay(25)
  return askGuard('write', term, value)
}

/** @type {Promise<void>} */
let working = Promise.resolve()

/** @param {import('tenure').Leadership} won */
function lead(won) {
  if (won === leadership) return
  leadership = won
  signal = won.signal
  working = working.then(() => countUp(won))
  // Half of the leaders make their lease wait for their work. The others do not.
  if (Math.random() < 0.5 && won.isLeader()) won.waitUntil(working)
}

/** @param {import('tenure').Leadership} won */
async function countUp(won) {
  while (won.isLeader()) {
    const read = await askGuard('read', won.term)
    if (!read.ok) return
    // The work does not check again before the write, so only the guard can refuse a late write.
    await delay(Math.random() < 0.1 ? Math.random() * dawdleMs : 10)
    const written = await askGuard('write', won.term, read.value + 1)
    if (written.ok) log({ kind: 'wrote', term: won.term, value: written.value, at: now() })
  }
}

// Commands

/** @param {number} ms */
const block = (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

function current() {
  if (!leadership?.isLeader()) throw new Error(`${identity} is not the leader`)
  return leadership
}

/** @type {Record<string, (value: any) => unknown>} */
const commands = {
  campaign: () => {
    tell({ event: 'campaigning', term: 0, at: now() })
    elector.start()
  },
  stepDown: (cooldownMs) => elector.stepDown({ cooldownMs }),
  /** Delays calls to the store for this long. */
  hold: (ms) => void (heldUntilMs = performance.now() + ms),
  delayReplies: (ms) => void (replyDelayMs = ms),
  block,
  /** Blocks between the loop's reading of the clock and the next sample. */
  stallInTimers: (ms) => void (stallMs = ms),
  wallMs: () => Date.now(),
  /** Blocks in the middle of a write, and reports the answers it gets afterwards. */
  stallWhileWriting: async (ms) => {
    const held = current()
    const { value } = await askGuard('read', held.term)
    block(ms)
    const leads = held.isLeader()
    if (!held.signal.aborted) await new Promise((resolve) => held.signal.addEventListener('abort', resolve))
    return { leads, reason: held.signal.reason.reason, written: await writeLate(held.term, (value ?? 0) + 1) }
  },
  /** Calls isLeader() in a loop until a jump of the clock shows a pause, and reports the first answer after it. */
  askThroughPause: async (leapMs) => {
    const held = current()
    const { value } = await askGuard('read', held.term)
    // The pause may come as soon as this is sent.
    const before = { at: now(), leads: held.isLeader() }
    tell({ event: 'asking', term: held.term, at: now() })
    await delay(1)
    const { ledBefore, leads } = askUntilLeap(held, leapMs * 1e6, before)
    return { ledBefore, leads, written: await writeLate(held.term, (value ?? 0) + 1) }
  },
}

/**
 * @param {import('tenure').Leadership} held
 * @param {number} leapNs
 * @param {{ at: number, leads: boolean }} before
 */
function askUntilLeap(held, leapNs, before) {
  let ledBefore = before.leads
  for (let last = before.at; ;) {
    const from = now()
    const leads = held.isLeader()
    const to = now()
    if (from - last > leapNs) return { ledBefore, leads }
    // The process was paused inside the call, which may have read the clock before the pause. The next answer is the
    // first that counts.
    if (to - from > leapNs) return { ledBefore, leads: held.isLeader() }
    ledBefore = leads
    last = to
  }
}

/** @param {{ id: number, command: string, value: unknown }} message */
async function obey({ id, command, value }) {
  try {
    tell({ id, result: await commands[command]?.(value) })
  } catch (error) {
    tell({ id, error: String(error) })
  }
}

async function stop() {
  await elector.stop()
  log({ kind: 'stopped', at: now() })
  stopping = true
  await working
  await store.close?.()
  guard.end()
  // From here on, nothing may keep this process alive.
  process.disconnect()
}

// A rejection ends the process, and the test checks its exit code.
process.on('message', (/** @type {Parameters<typeof obey>[0]} */ message) => void obey(message))
process.once('SIGTERM', () => void stop())
process.once('disconnect', () => stopping || process.exit(1))

sample()
tell({ event: 'ready', term: 0, at: now() })
