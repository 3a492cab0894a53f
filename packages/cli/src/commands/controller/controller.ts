import type { Controller, RelayObserver } from '@tenure/multicluster'
import { fromKubeConfig, inCluster } from 'tenure/kubernetes'
import { formatAddress } from '../../shared/arguments/addresses.ts'
import { usageError } from '../../shared/arguments/errors.ts'
import { settingsFrom, type Sources } from '../../shared/arguments/settings.ts'
import { stopOnSignals } from '../../shared/shutdown.ts'
import { ErrorLog } from '../../shared/error-log.ts'
import { commandErrorOf, withCommandErrors } from '../../shared/failures.ts'
import { makeLog, type CommandLog } from '../../shared/log.ts'
import { loadMulticluster } from '../../shared/optional-packages.ts'
import { failure, listen, type Replies } from '../../shared/small-server.ts'
import { openChosenStore } from '../../shared/store.ts'
import { controllerSettings } from './command.ts'

/** Runs the controller of a cluster until a signal arrives. */
export async function controller(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(controllerSettings, flags)
  const { cluster, namespace } = settings
  if (cluster === undefined) {
    throw usageError(['--cluster is missing, and TENURE_CLUSTER is not set. Name this cluster, for example "east".'])
  }
  const { startController } = await loadMulticluster('tenure controller')
  const log = makeLog(settings.json)
  const store = await openChosenStore(settings)
  const running = withCommandErrors(() => {
    const client = process.env['KUBERNETES_SERVICE_HOST'] ? inCluster() : fromKubeConfig()
    return startController({ store, cluster, namespace, client, observer: reporter(log) })
  })
  const server = await listen({ what: 'controller', ...settings, replies: repliesOf(running) })
  const scope = namespace === undefined ? 'all namespaces' : `namespace ${namespace}`
  log.info(
    { url: server.url, cluster, namespace },
    `serving ${scope} of cluster ${cluster}, listening on ${server.url}`,
  )
  if (!server.isLoopback) {
    log.warn({}, `anyone who can reach ${formatAddress(settings.listen)} can read the metrics`)
  }
  stopOnSignals(log, async () => {
    await running.stop()
    await server.close()
    await store.close?.()
  })
}

function repliesOf(running: Controller): Replies {
  return {
    '/healthz': () => ({ status: 200, body: { ok: true, ...healthOf(running) } }),
    '/readyz': () =>
      running.health().isReady
        ? { status: 200, body: { ok: true, ...healthOf(running) } }
        : failure(503, 'BACKEND_UNAVAILABLE', running.health().summary),
    '/metrics': () => ({ status: 200, contentType: running.metrics.contentType, text: running.metrics.text() }),
  }
}

function healthOf(running: Controller): object {
  const { isReady, isBackendHealthy, isFirst, summary } = running.health()
  return { ready: isReady, backend_healthy: isBackendHealthy, first: isFirst, summary }
}

/** Logs leadership changes and errors. A repeated error is logged once a minute. */
function reporter(log: CommandLog): RelayObserver {
  const troubles = new ErrorLog()
  return {
    onLeadership({ namespace, name, change, identity, term }) {
      const fields = { namespace, name, change, identity, term }
      if (identity !== '') log.info(fields, `${namespace}/${name}: ${identity} ${wordsFor[change]} (term ${term})`)
    },
    onBackend({ healthy, error }) {
      if (healthy) log.info({}, 'the global store answers again')
      else log.error({}, `the global store does not answer: ${commandErrorOf(error).message}`)
    },
    onWritten: () => troubles.end({ ofRenewal: false }),
    onError(error, during) {
      const { message } = commandErrorOf(error)
      if (troubles.shouldReport(message, { ofRenewal: false })) log.error({ during }, `${during}: ${message}`)
    },
  }
}

const wordsFor = {
  elected: 'of this cluster leads',
  released: 'of this cluster released the lease',
  lost: 'of this cluster no longer leads',
  moved: 'leads',
}
