/** A service under attack, with honest clients and a bare server running alongside it. Each is a separate process. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../../test/servers/free-port.ts'
import { audience, claimsOf, ecKeys, issuer, jwkOf, signed } from './auth/tokens.ts'
import { FloodProcess, passed, waitedForCpuMs } from './flood-process.ts'

/** Every attack that `attacker.mjs` implements. */
export const attacks = [
  'fanout',
  'flapping',
  'pipelined',
  'pipelined, too deep',
  'connections',
  'held connections',
  'anonymous',
  'anonymous, new connections',
  'anonymous, refused',
  'forged tokens',
  'polls',
  'changes',
  'far terms',
  'new groups',
  'openapi',
  'members',
] as const
export type Attack = (typeof attacks)[number] | 'none'
/** Which of the three replicas is attacked. */
export type Target = 'active' | 'follower'

/** The measurements of one honest client. */
export interface Honest {
  /** The replica that the client calls: the attacked one, or a follower that is not attacked. */
  readonly through: 'attacked' | 'follower'
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  readonly leasesLost: number
  /** The number of responses to this client by status. Status 0 counts calls without a response. */
  readonly statuses: Readonly<Record<string, number>>
  readonly bareP99Ms: number
  readonly bareMaxMs: number
}

export interface Measured {
  readonly attack: Attack
  /** The honest clients: one, or two when there are three replicas. */
  readonly honest: readonly Honest[]
  /** The peak memory of any process of the service. Undefined on systems that do not report it. */
  readonly peakRssMb: number | undefined
  /** Whether every process of the service is still running. */
  readonly survived: boolean
  /** The number of responses to the attacker by status. */
  readonly answered: Readonly<Record<string, number>>
  /** The metrics of the attacked process after the attack. */
  readonly metrics: string
  /**
   * The fraction of the time during which the most starved process of the service could not run because others used the
   * CPUs.
   */
  readonly starved: number
  /** The load of the machine over the last minute. */
  readonly load: number
}

export interface SceneOptions {
  /** How long the attack lasts once it has begun. */
  readonly forMs: number
  /** The heap size of each process of the service. Default: Node's default. */
  readonly heapMb?: number
  /** Flags for `tenure serve`. */
  readonly flags?: readonly string[]
  /** The path of another build of the command. */
  readonly program?: string
  /** Runs three replicas on this storage instead of one process on a directory. */
  readonly replicas?: { readonly store: string; readonly target: Target }
}

const program = join(import.meta.dirname, '../../cli/bin/tenure.js')
const bareServer = `require('node:http').createServer((_, answer) => answer.end('{}')).listen(0, '127.0.0.1', function () {
  console.log('http://127.0.0.1:' + this.address().port)
})`
const path = (name: string) => join(import.meta.dirname, name)

/** A process of the service and its URL. */
interface Served {
  readonly process: FloodProcess
  readonly url: string
}

/** Attacks a service for a while and measures the effect on honest clients. */
export async function measure(attack: Attack, options: SceneOptions): Promise<Measured> {
  const keys = ecKeys()
  const tokenFor = (sub: string, tenure: object) =>
    signed({ alg: 'ES256', kid: 'one' }, claimsOf(sub, { tenure }), keys.privateKey)
  const folder = mkdtempSync(join(tmpdir(), 'tenure-flood-'))
  const running: FloodProcess[] = []
  const run = (...args: readonly string[]) => {
    const started = new FloodProcess(args)
    running.push(started)
    return started
  }
  try {
    const keysFile = join(folder, 'keys.json')
    writeFileSync(keysFile, JSON.stringify({ keys: [jwkOf(keys.publicKey, { kid: 'one', alg: 'ES256' })] }))
    const heap = options.heapMb === undefined ? [] : [`--max-old-space-size=${options.heapMb}`]
    const identity = ['--jwt-keys', keysFile, '--jwt-issuer', issuer, '--jwt-audience', audience]
    const serve = async (...kept: readonly string[]): Promise<Served> => {
      const flags = [...kept, '--json', '--listen', '127.0.0.1:0', ...identity, ...(options.flags ?? [])]
      const process = run(...heap, options.program ?? program, 'serve', ...flags)
      const [, url = ''] = await process.until(/"url":"([^"]+)"/)
      return { process, url }
    }
    const reader = tokenFor('reader', { reader: true })
    const ask = (url: string) => fetch(url, { headers: { authorization: `Bearer ${reader}` } })
    const { services, attacked, quiet } = await startServices(serve, options, { folder, ask })
    const bare = run('-e', bareServer)
    const [bareUrl] = await bare.until(/http:\S+/)
    const clients = [attacked, ...(quiet ? [quiet] : [])].map(({ url }, index) => {
      const name = `honest-${index}`
      return run(path('honest-client.mjs'), url, bareUrl, tokenFor(name, { groups: ['other-*'] }), name)
    })
    // The honest clients lead before the attack begins.
    await Promise.all(clients.map((client) => client.until(/ready/)))
    const mine = { groups: ['mine-*'], nodePrefix: 'attacker' }
    const attacker = run(path('attacker.mjs'), attack, attacked.url, tokenFor('attacker', mine))
    await attacker.until(/ready/)
    for (const client of clients) client.child.stdin.write('measure\n')
    const waitedMs = () => services.map(({ process }) => waitedForCpuMs(process.child.pid))
    const waitedBeforeMs = waitedMs()
    await passed(options.forMs)
    const waitsMs = waitedMs().map((ms, index) => ms - (waitedBeforeMs[index] ?? 0))
    const [load = 0] = loadavg()
    const seen = await Promise.all(clients.map((client) => client.report() as Promise<Seen>))
    const answered = (await attacker.report()) as Record<string, number>
    const survived = services.every(({ process }) => !process.hasEnded)
    const metrics = survived && (await ask(`${attacked.url}/metrics`))
    return {
      attack,
      honest: seen.map((one, index) => honestFrom(one, index === 0 ? 'attacked' : 'follower')),
      peakRssMb: mostOf(services.map(({ process }) => process.peakRssMb)),
      survived,
      answered,
      metrics: metrics ? await metrics.text() : '',
      starved: Math.min(0.99, Math.max(0, ...waitsMs) / options.forMs),
      load,
    }
  } finally {
    await Promise.all(running.map((each) => each.stop()))
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Starts one process on a directory, or three replicas. Resolves once all of them know the active replica. */
async function startServices(
  serve: (...kept: readonly string[]) => Promise<Served>,
  { replicas }: SceneOptions,
  { folder, ask }: { readonly folder: string; ask(url: string): Promise<Response> },
): Promise<{ readonly services: readonly Served[]; readonly attacked: Served; readonly quiet?: Served }> {
  if (!replicas) {
    const service = await serve('--data', join(folder, 'data'))
    return { services: [service], attacked: service }
  }
  const { store, target } = replicas
  const started: (Served & { readonly address: string })[] = []
  for (let count = 0; count < 3; count++) {
    const address = `http://127.0.0.1:${await freePort()}`
    started.push({ ...(await serve('--store', store, '--advertise', address)), address })
  }
  const [first] = started
  for (;;) {
    const status = (await (await ask(`${first?.url}/v1/replicas`)).json()) as Status
    const active = started.find(({ address }) => address === status.replicas?.find(isActive)?.address)
    const [one, other] = started.filter((each) => each !== active)
    if (active && one && other && status.replicas?.length === started.length) {
      return { services: started, attacked: target === 'active' ? active : one, quiet: other }
    }
    await passed(50)
  }
}

interface Status {
  readonly replicas?: readonly { readonly role: string; readonly address: string }[]
}

const isActive = ({ role }: { readonly role: string }) => role === 'active'

interface Seen {
  readonly renewalsMs: number[]
  readonly bareMs: number[]
  readonly leasesLost: number
  readonly statuses: Record<string, number>
}

function honestFrom({ renewalsMs, bareMs, leasesLost, statuses }: Seen, through: Honest['through']): Honest {
  return {
    through,
    p50Ms: percentile(renewalsMs, 0.5),
    p99Ms: percentile(renewalsMs, 0.99),
    maxMs: Math.max(...renewalsMs),
    leasesLost,
    statuses,
    bareP99Ms: percentile(bareMs, 0.99),
    bareMaxMs: Math.max(...bareMs),
  }
}

function mostOf(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined)
  return known.length === 0 ? undefined : Math.max(...known)
}

function percentile(values: readonly number[], part: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] ?? Infinity
}
