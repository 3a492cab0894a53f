import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'
import { Elector, type ElectionEvent, type LeaseStore } from 'tenure'
import { formatAddress, listenFailure } from '../addresses.ts'
import { sidecarSettings } from '../commands/sidecar.ts'
import { failureOf } from '../failures.ts'
import { argument, settingsFrom, type Chosen, type Sources } from '../settings.ts'
import { openChosenStore } from '../store.ts'
import { Troubles } from '../troubles.ts'
import { nameOf } from '../values.ts'
import { makeLog, type Log } from './log.ts'
import { Promised } from './promised.ts'
import { listen } from './server.ts'

type Settings = Chosen<typeof sidecarSettings>

/** Campaigns until a signal comes, and answers whoever asks. */
export async function sidecar(name: string, flags: Sources['flags']): Promise<void> {
  const election = argument('ELECTION', name, nameOf)
  const settings = settingsFrom(sidecarSettings, flags)
  const log = makeLog(settings.json)
  const store = await openStore(settings)
  const promised = new Promised()
  const report = reporter(log)
  const elector = makeElector(store, election, settings, (event) => {
    if (event.type === 'elected') {
      // Rejects if it stops in this very moment, and then nothing was told.
      elector.waitForLeadership().then(
        (leadership) => promised.coverUntilTold(leadership),
        () => {},
      )
    }
    report(event)
  })
  const server = await listen(settings.listen, elector, promised).catch((error: unknown) => {
    throw listenFailure(error, settings.listen) ?? error
  })
  const { identity } = elector
  log.info({ url: server.url, election, identity }, `answers on ${server.url}, and campaigns as ${identity}`)
  if (!server.isLoopback) {
    log.warn({}, `everybody who reaches ${formatAddress(settings.listen)} may ask who leads`)
  }
  elector.start()
  stopOnSignals(log, async () => {
    promised.end()
    await elector.stop()
    await server.close()
    await store.close?.()
  })
}

/** The program beside it may run on when this one dies: in the file store, nobody takes over before the lease is out. */
async function openStore(settings: Settings): Promise<LeaseStore> {
  const store = await openChosenStore(settings)
  if (!/^file:/i.test(settings.store ?? '')) return store
  const { fileStore } = await import('tenure/stores/file')
  return fileStore({ directory: fileURLToPath(settings.store ?? ''), fastTakeover: false })
}

function makeElector(
  store: LeaseStore,
  election: string,
  { identity, ttl, metadata }: Settings,
  onEvent: (event: ElectionEvent) => void,
): Elector {
  try {
    return new Elector({
      store,
      election,
      identity: identity ?? (process.env['POD_NAME'] || undefined),
      leaseDurationMs: ttl,
      metadata,
      // What was told lasts no longer than a lease.
      drainTimeoutMs: ttl,
      observer: { onEvent },
    })
  } catch (error) {
    throw failureOf(error)
  }
}

/** Writes down what happens. */
function reporter(log: Log): (event: ElectionEvent) => void {
  const troubles = new Troubles()
  return (event) => {
    const { election, type } = event
    if (type === 'renewed' || type === 'elected' || type === 'new-leader') {
      troubles.end({ ofRenewal: type === 'renewed' })
    }
    if (type === 'elected') log.info({ type, election, term: event.term }, `leads ${election} in term ${event.term}`)
    if (type === 'lost') {
      const { term, reason } = event
      log.info({ type, election, term, reason }, `leads ${election} no more (${reason}): term ${term} has ended`)
    }
    if (type === 'new-leader' && event.record.holder !== event.identity) {
      const { holder, term } = event.record
      log.info({ type, election, holder, term }, `${holder} leads ${election} in term ${term}`)
    }
    if (type === 'error' || type === 'renew-failed') {
      const { message } = failureOf(event.error)
      if (troubles.isNew(message, { ofRenewal: type === 'renew-failed' })) log.error({ type, election }, message)
    }
  }
}

/** The first signal ends it in good order, the second at once. */
function stopOnSignals(log: Log, stop: () => Promise<void>): void {
  let stopping = false
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (stopping) process.exit(128 + constants.signals[signal])
      stopping = true
      log.info({ signal }, `stops on ${signal}`)
      void stop().then(() => process.exit(0))
    })
  }
}
