import type { RunningService, ServiceOptions } from '@tenure/service'
import { Command } from 'commander'
import { formatAddress, listenFailure } from '../addresses.ts'
import { readConfigFile } from '../config-file.ts'
import { describe } from '../describe.ts'
import { CommandError, exitCodes } from '../errors.ts'
import { addFlags, choose, mistypedVariables } from '../settings.ts'
import { stopOnSignals } from '../stopping.ts'
import { welcome } from '../welcome.ts'
import { checkTogether, serveSettings, type ServeSettings } from './serve-settings.ts'

/** `tenure serve`: the election service. */
export function serveCommand(): Command {
  const command = new Command('serve')
    .description('Run the election service over HTTP, on a data directory.')
    .option('--config <file>', 'settings as JSON; flags and environment come first')
  addFlags(command, serveSettings)
  return describe(command, {
    examples: [
      'tenure serve',
      'tenure serve --listen :7070 --data /var/lib/tenure --tls-cert service.pem --tls-key service.key \\',
      '  --jwt-keys keys.json --jwt-issuer https://issuer.example --jwt-audience tenure',
    ],
    notes: [
      'Without authentication (--jwt-keys or --tls-client-ca) it listens on loopback only.',
      'SIGHUP reads keys, certificates and rights again. SIGTERM and SIGINT end it without losing anything.',
      'Options can stand in the file too, by other names: --min-ttl is minTtl there.',
      '',
    ],
    exitCodes: '0, 2 for wrong settings, 69 if the data or the address cannot be had, 1 if stopping took too long',
  }).action((flags: Record<string, unknown>) => serve(flags, command.parent))
}

async function serve(flags: Readonly<Record<string, unknown>>, program: Command | null): Promise<void> {
  const settings = readSettings(flags)
  // Loaded only here: the rest of the command line starts without it.
  const { createLogger, startService } = await import('@tenure/service')
  const logger = createLogger({ level: settings.logLevel, json: settings.json })
  for (const text of mistypedVariables(serveSettings, process.env, program)) logger.warn(text)
  const options = optionsOf(settings)
  let service: RunningService
  try {
    service = await startService({ ...options, logger })
  } catch (error) {
    throw translate(error, settings)
  }
  const { url, clusterId } = service
  logger.info({ url, data: settings.data, cluster_id: clusterId }, 'the service listens')
  if (!options.authentication) {
    logger.warn('there is no authentication: everybody on this machine may do everything, and nobody else can connect')
  }
  // Whoever was to read it may be gone.
  process.stdout.on('error', () => {})
  if (settings.welcome) process.stdout.write(welcome(url, settings))
  stopOnSignals(service, logger)
}

function readSettings(flags: Readonly<Record<string, unknown>>): ServeSettings {
  const environment = process.env
  const path = (flags['config'] as string | undefined) ?? environment['TENURE_CONFIG']
  const file = path === undefined || path === '' ? undefined : readConfigFile(path)
  const settings = choose(serveSettings, { flags, environment, file, from: { directory: process.cwd() } })
  checkTogether(settings)
  return settings
}

/** The settings in the words of the service. */
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
  return {
    data: settings.data,
    host: listen.host,
    port: listen.port,
    policy: { minTtlMs: settings.minTtl, maxTtlMs: settings.maxTtl },
    implicitGroups: !settings.explicitGroups,
    maxGroups: settings.maxGroups,
    maxWatchers: settings.maxWatchers,
    afterRestore: settings.afterRestore,
    limits: limitsOf(settings),
    ...(settings.allowedHost.length > 0 && { allowedHosts: [...ownNames, ...settings.allowedHost] }),
    ...((jwt || certificates) && { authentication: { jwt, certificates } }),
    ...(tlsCert !== undefined &&
      tlsKey !== undefined && { tls: { certFile: tlsCert, keyFile: tlsKey, clientCaFile: tlsClientCa } }),
  }
}

/** Whoever is on this machine may always ask. */
const ownNames = ['localhost', '127.0.0.1', '[::1]']

function limitsOf(settings: ServeSettings): NonNullable<ServiceOptions['limits']> {
  const { headersTimeout, requestTimeout, answerTimeout, ...rest } = settings
  const { maxConnections, maxConnectionsPerAddress, maxWaiting } = rest
  const { requestsPerSecond, renewalsPerSecond, newGroupsPerHour, watchesPerSubject, waitingPerSubject } = rest
  const limits = {
    maxConnections,
    maxConnectionsPerAddress,
    maxWaiting,
    headersTimeoutMs: headersTimeout,
    requestTimeoutMs: requestTimeout,
    answerTimeoutMs: answerTimeout,
    requestsPerSecond,
    renewalsPerSecond,
    newGroupsPerHour,
    watchesPerSubject,
    waitingPerSubject,
  }
  return Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit !== undefined))
}

/** How the service calls what has another name here. */
const flagsByOption: Readonly<Record<string, string>> = {
  'tls.certFile': '--tls-cert',
  'tls.keyFile': '--tls-key',
  'tls.clientCaFile': '--tls-client-ca',
  'authentication.certificates.rightsFile': '--certificate-rights',
  'authentication.jwt.keysFile': '--jwt-keys',
  'authentication.jwt.issuer': '--jwt-issuer',
  'authentication.jwt.audience': '--jwt-audience',
  'limits.headersTimeoutMs': 'headersTimeout',
  'authentication.jwt.maxLifetimeMs': 'jwtMaxLifetime',
  'authentication.jwt.clockToleranceMs': 'jwtClockTolerance',
}

/** Why the service did not start, in the words of the command line. */
function translate(error: unknown, { listen, data }: ServeSettings): CommandError {
  const { code, message } = error as NodeJS.ErrnoException
  const unavailable = (text: string) => new CommandError(text, exitCodes.unavailable, { cause: error })
  const [, option, rest] = /^(host|(?:tls|authentication|limits)\.[\w.]+)\b(.*)$/s.exec(message) ?? []
  if (option === 'host') {
    const text = `--listen ${formatAddress(listen)} needs --jwt-keys or --tls-client-ca: ${message.replace(/^.*?; /s, '')}`
    return new CommandError(text, exitCodes.usage, { cause: error })
  }
  if (option !== undefined) {
    return new CommandError(`${flagsByOption[option] ?? option}${rest}`, exitCodes.usage, { cause: error })
  }
  const listening = listenFailure(error, listen)
  if (listening) return listening
  if (code === undefined) return unavailable(message)
  return unavailable(`The data directory ${data} cannot be used: ${message}.`)
}
