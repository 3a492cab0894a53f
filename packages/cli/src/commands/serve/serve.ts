import type { RunningService, ServiceOptions } from '@tenure/service'
import type { Command } from 'commander'
import type { ErrorDetails } from 'tenure'
import { formatAddress, listenFailure } from '../../shared/arguments/addresses.ts'
import { readConfigFile } from '../../shared/arguments/config-file.ts'
import { CommandError, exitCodes, unavailable } from '../../shared/arguments/errors.ts'
import { resolveSettings, mistypedVariables, passwordWarnings } from '../../shared/arguments/settings.ts'
import { loadService } from '../../shared/optional-packages.ts'
import { checkServeSettings, defaultData, serveSettings, type ServeSettings } from './settings.ts'
import { stopOnSignals } from './stopping.ts'
import { welcome } from './welcome.ts'

/** Serves elections until a signal arrives. */
export async function serve(flags: Readonly<Record<string, unknown>>, program: Command): Promise<void> {
  const settings = readSettings(flags)
  // Imported only now, so that an invalid setting is reported without loading the service.
  const { createLogger, startService } = await loadService('tenure serve')
  const { redactedUrl } = await import('tenure/stores')
  const logger = createLogger({ level: settings.logLevel, json: settings.json })
  for (const text of mistypedVariables(serveSettings, process.env, program)) logger.warn(text)
  for (const text of passwordWarnings(flags)) logger.warn(text)
  const options = optionsOf(settings)
  const place = options.store === undefined ? (options.data ?? '') : redactedUrl(options.store)
  let service: RunningService
  try {
    service = await startService({ ...options, logger })
  } catch (error) {
    throw translate(error, settings, place)
  }
  // Before the first line that a supervisor may wait for, so that a signal after that line stops the service gracefully.
  stopOnSignals(service, logger)
  const { url, clusterId } = service
  logger.info({ url, data: place, cluster_id: clusterId }, 'the service is listening')
  if (!options.authentication) {
    logger.warn('authentication is off: any user on this machine may do anything, and nobody else can connect')
  }
  // Ignore write errors, which mean that nobody reads the output anymore.
  process.stdout.on('error', () => {})
  if (settings.welcome) process.stdout.write(welcome(url, place, settings))
}

function readSettings(flags: Readonly<Record<string, unknown>>): ServeSettings {
  const environment = process.env
  const path = (flags['config'] as string | undefined) ?? environment['TENURE_CONFIG']
  const file = path === undefined || path === '' ? undefined : readConfigFile(path)
  const settings = resolveSettings(serveSettings, { flags, environment, file, from: { directory: process.cwd() } })
  checkServeSettings(settings)
  return settings
}

/** Converts the settings to options of the service. */
function optionsOf(settings: ServeSettings): ServiceOptions {
  const { listen, tlsCert, tlsKey, tlsClientCa, certificateRights, jwtKeys, jwtIssuer, jwtAudience } = settings
  const jwt =
    jwtKeys !== undefined && jwtIssuer !== undefined && jwtAudience !== undefined
      ? {
          keysFile: jwtKeys,
          issuer: jwtIssuer,
          audience: jwtAudience,
          maxLifetimeMs: settings.jwtMaxLifetime,
          clockToleranceMs: settings.jwtClockTolerance,
        }
      : undefined
  const certificates = certificateRights === undefined ? undefined : { rightsFile: certificateRights }
  const { store, advertise, advertiseCa, data = defaultData, tokenKey: tokenKeyFile } = settings
  return {
    ...(store === undefined ? { data } : { store, advertise, advertiseCaFile: advertiseCa }),
    host: listen.host,
    port: listen.port,
    policy: { minTtlMs: settings.minTtl, maxTtlMs: settings.maxTtl },
    implicitGroups: !settings.explicitGroups,
    maxGroups: settings.maxGroups,
    maxWatchers: settings.maxWatchers,
    ...(settings.metricsGroups.length > 0 && { metricsGroups: settings.metricsGroups }),
    allowNetworkFilesystem: settings.allowNetworkFilesystem,
    limits: limitsOf(settings),
    ...(settings.allowedHost.length > 0 && { allowedHosts: [...ownNames, ...settings.allowedHost] }),
    ...((tokenKeyFile !== undefined || jwt || certificates) && { authentication: { tokenKeyFile, jwt, certificates } }),
    ...(tlsCert !== undefined &&
      tlsKey !== undefined && { tls: { certFile: tlsCert, keyFile: tlsKey, clientCaFile: tlsClientCa } }),
  }
}

/** These host names are always allowed. */
const ownNames = ['localhost', '127.0.0.1', '[::1]']

const countLimits = [
  'maxConnections',
  'maxConnectionsPerAddress',
  'maxUnidentifiedPerAddress',
  'maxWaiting',
  'maxBodyBytes',
  'maxAnswerBytes',
  'requestsPerSecond',
  'renewalsPerSecond',
  'maxGroupBytes',
  'newGroupsPerHour',
  'groupBytesPerSubject',
  'watchesPerSubject',
  'deliveriesPerSecond',
  'waitingPerSubject',
] as const
const timeLimits = ['unidentifiedTimeout', 'headersTimeout', 'requestTimeout', 'answerTimeout'] as const

function limitsOf(settings: ServeSettings): NonNullable<ServiceOptions['limits']> {
  const counts = countLimits.map((name) => [name, settings[name]] as const)
  const times = timeLimits.map((name) => [`${name}Ms`, settings[name]] as const)
  return Object.fromEntries([...counts, ...times].filter(([, limit]) => limit !== undefined))
}

/** The flags whose names differ from those of the service's options. */
const flagsByOption: Readonly<Record<string, string>> = {
  advertise: '--advertise',
  advertiseCaFile: '--advertise-ca',
  store: '--store',
  metricsGroups: '--metrics-groups',
  'tls.certFile': '--tls-cert',
  'tls.keyFile': '--tls-key',
  'tls.clientCaFile': '--tls-client-ca',
  'authentication.certificates.rightsFile': '--certificate-rights',
  'authentication.tokenKeyFile': '--token-key',
  'authentication.jwt.keysFile': '--jwt-keys',
  'authentication.jwt.issuer': '--jwt-issuer',
  'authentication.jwt.audience': '--jwt-audience',
  'limits.headersTimeoutMs': 'headersTimeout',
  'authentication.jwt.maxLifetimeMs': 'jwtMaxLifetime',
  'authentication.jwt.clockToleranceMs': 'jwtClockTolerance',
}

const networkAdvice =
  'Use a local directory, or another store for elections between machines. If locks and renames of this file system hold for all hosts, add --allow-network-filesystem.'

/** Explains in command-line terms why the service did not start. */
function translate(error: unknown, { listen, store }: ServeSettings, place: string): CommandError {
  const { code, message, cause, option, rule } = error as NodeJS.ErrnoException & ErrorDetails
  if (option === 'host') {
    const text = `--listen ${formatAddress(listen)} needs --token-key, --jwt-keys or --tls-client-ca: ${rule}`
    return new CommandError(text, exitCodes.usage, { cause: error })
  }
  if (option !== undefined) {
    const text = message.replace(option, flagsByOption[option] ?? option)
    return new CommandError(text, exitCodes.usage, { cause: error })
  }
  const listening = listenFailure(error, listen)
  if (listening) return listening
  if (store !== undefined) return unavailable(error, `The store ${place} cannot be used: ${message}`)
  if (code !== undefined) return unavailable(error, `The data directory ${place} cannot be used: ${message}.`)
  const below = (cause ?? {}) as ErrorDetails
  const isNetwork = below.option === 'allowNetworkFilesystem' && below.advice !== undefined
  return unavailable(error, isNetwork ? message.replace(below.advice, networkAdvice) : message)
}
