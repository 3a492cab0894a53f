import { electionMetrics, Elector, type ElectionEvent, type Observer } from 'tenure'
import { parseArgument, settingsFrom, type Sources } from '../../shared/arguments/settings.ts'
import { nameOf } from '../../shared/arguments/values.ts'
import { isFollowing } from '../../shared/elector.ts'
import { stopOnSignals } from '../../shared/shutdown.ts'
import { commandErrorOf, withCommandErrors } from '../../shared/failures.ts'
import { makeLog, type CommandLog } from '../../shared/log.ts'
import { serveMetrics } from '../../shared/metrics-server.ts'
import { listen } from '../../shared/small-server.ts'
import { nodeFromToken, openChosenStore } from '../../shared/store.ts'
import { ErrorLog } from '../../shared/error-log.ts'
import { LeasePromises } from './lease-promises.ts'
import { sidecarReplies } from './replies.ts'
import { sidecarSettings } from './command.ts'

/** Campaigns and answers over HTTP until a signal arrives. */
export async function sidecar(name: string, flags: Sources['flags']): Promise<void> {
  const election = parseArgument('ELECTION', name, nameOf)
  const settings = settingsFrom(sidecarSettings, flags)
  const log = makeLog(settings.json)
  // The program next to the sidecar may keep working when the sidecar dies, so nobody may take over before the lease
  // has expired.
  const store = await openChosenStore(settings, { fastTakeover: false })
  const promised = new LeasePromises()
  const troubles = new ErrorLog()
  const report = reporter(log, troubles)
  const metrics = electionMetrics()
  const observer: Observer = {
    onEvent(event) {
      if (event.type === 'elected') {
        // Rejects if the elector stops at the same moment. In that case, nothing was promised.
        elector.waitForLeadership().then(
          (leadership) => promised.cover(leadership),
          () => {},
        )
      }
      metrics.onEvent(event)
      report(event)
    },
    onCall(call) {
      metrics.onCall(call)
      if (troubles.recordCall(call, () => isFollowing(elector))) sayThatItAnswers(log, election)
    },
  }
  const { ttl: leaseDurationMs, metadata } = settings
  const identity =
    settings.identity ?? nodeFromToken(settings.store, settings) ?? (process.env['POD_NAME'] || undefined)
  // A promise lasts no longer than a lease.
  const timings = { leaseDurationMs, drainTimeoutMs: leaseDurationMs }
  const elector = withCommandErrors(() => new Elector({ store, election, identity, metadata, ...timings, observer }))
  const replies = sidecarReplies(elector, promised, metrics)
  const shown = await serveMetrics('sidecar', settings, metrics)
  const server = await listen({ what: 'sidecar', ...settings, replies }).catch(async (error: unknown) => {
    await shown?.close()
    throw error
  })
  if (shown) log.info({ metrics: shown.url }, `metrics are at ${shown.url}/metrics`)
  if (shown && !shown.isLoopback) log.warn({}, `anyone who can reach ${shown.url} can read the metrics`)
  const text = `listening on ${server.url}, campaigning as ${elector.identity}`
  log.info({ url: server.url, election, identity: elector.identity }, text)
  if (!server.isLoopback) {
    log.warn({}, `anyone who can reach ${server.url} can ask who leads`)
  }
  elector.start()
  stopOnSignals(log, async () => {
    promised.end()
    await elector.stop()
    await server.close()
    await shown?.close()
    await store.close?.()
  })
}

function sayThatItAnswers(log: CommandLog, election: string): void {
  log.info({ type: 'answers', election }, 'the store answers again')
}

/** Logs events. A repeated error is logged once a minute. */
function reporter(log: CommandLog, troubles: ErrorLog): (event: ElectionEvent) => void {
  return (event) => {
    const { election, type } = event
    if (type === 'renewed' || type === 'elected' || type === 'new-leader') {
      if (troubles.end({ ofRenewal: type === 'renewed' })) sayThatItAnswers(log, election)
    }
    if (type === 'elected') log.info({ type, election, term: event.term }, `leads ${election} in term ${event.term}`)
    if (type === 'lost') {
      const { term, reason } = event
      log.info({ type, election, term, reason }, `no longer leads ${election} (${reason}): term ${term} has ended`)
    }
    if (type === 'new-leader' && event.record.holder !== event.identity) {
      const { holder, term } = event.record
      log.info({ type, election, holder, term }, `${holder} leads ${election} in term ${term}`)
    }
    if (type === 'error' || type === 'renew-failed') {
      const { message } = commandErrorOf(event.error)
      if (troubles.shouldReport(message, { ofRenewal: type === 'renew-failed' })) log.error({ type, election }, message)
    }
  }
}
