import { fork, type ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startClientGo, type ClientGoEvent } from '../servers/client-go.ts'
import type { ApiServer } from '../servers/cluster.ts'
import { end } from '../servers/process.ts'
import { startWatchdog } from '../servers/watchdog.ts'
import { overlaps } from './beliefs.ts'
import { kubeConfigOf } from './kube-config.ts'

/** The implementation of a candidate. */
export type Kind = 'tenure' | 'client-go'

/** The timings of both implementations. */
export interface ElectionTimings {
  readonly leaseDurationMs: number
  readonly renewDeadlineMs: number
  readonly retryPeriodMs: number
}

/** The options of a process of Tenure. */
export interface Campaign {
  readonly leaseName: string
  readonly leaseNamespace: string
  readonly identity: string
  readonly kubeConfig: string
  readonly timings: ElectionTimings
}

type Told = Pick<ClientGoEvent, 'event' | 'monotonicMs'>

/** One candidate. */
export interface Candidate {
  readonly identity: string
  readonly events: readonly Told[]
}

/**
 * Elections of Tenure and of client-go on one API server. Each has its own Lease, two candidates, and its own
 * connection to the API server. The two candidates of an election never share a process.
 */
export class SideBySide {
  readonly cluster: ApiServer
  readonly timings: ElectionTimings
  readonly #folder = mkdtempSync(join(tmpdir(), 'tenure-side-by-side-'))
  readonly #hosts = { a: new Host(), b: new Host() }
  readonly #elections: { readonly kind: Kind; readonly leaseName: string; readonly candidates: Candidate[] }[] = []
  readonly #ends: (() => unknown)[] = []

  constructor(cluster: ApiServer, timings: ElectionTimings) {
    this.cluster = cluster
    this.timings = timings
    this.onEnd(() => rmSync(this.#folder, { recursive: true }))
    for (const host of Object.values(this.#hosts)) this.onEnd(() => host.end())
  }

  /** Creates an election whose candidates reach the API server at this port. */
  election(kind: Kind, leaseName: string, port: number): Election {
    const candidates: Candidate[] = []
    this.#elections.push({ kind, leaseName, candidates })
    const start = kind === 'tenure' ? this.#startTenure.bind(this) : this.#startClientGo.bind(this)
    return {
      leaseName,
      campaign: (seat) => {
        const candidate = start(leaseName, port, seat)
        candidates.push(candidate)
        return candidate
      },
    }
  }

  #startTenure(leaseName: string, port: number, seat: CandidatePosition): Candidate {
    const { timings, cluster } = this
    const kubeConfig = join(this.#folder, `kubeconfig-${port}`)
    // Write the file only once, because a process may be reading it.
    if (!existsSync(kubeConfig)) writeFileSync(kubeConfig, kubeConfigOf(cluster, { port }))
    const identity = `${leaseName}-${seat}`
    const leaseNamespace = cluster.namespace
    return this.#hosts[seat].campaign({ leaseName, leaseNamespace, identity, kubeConfig, timings })
  }

  #startClientGo(lease: string, port: number, seat: CandidatePosition): Candidate {
    const { caFile, adminToken: token, namespace } = this.cluster
    const server = `https://127.0.0.1:${port}`
    const identity = `${lease}-${seat}`
    const peer = startClientGo({ server, caFile, token, namespace, lease, identity, ...this.timings })
    this.onEnd(() => peer.stop())
    return peer
  }

  /** Returns candidates of the same election that believed at the same time that they led. */
  overlaps(kind: Kind): string[] {
    const elections = this.#elections.filter((election) => election.kind === kind)
    return elections.flatMap(({ leaseName, candidates }) =>
      overlaps(candidates.flatMap(beliefsOf)).map((pair) => {
        const [one, other] = pair.map(({ identity, fromMs, toMs }) => `${identity} from ${fromMs} to ${toMs}`)
        return `${leaseName}: ${one} and ${other}`
      }),
    )
  }

  /** Registers a cleanup. The last one registered runs first. */
  onEnd(act: () => unknown): void {
    this.#ends.unshift(act)
  }

  /** Ends everything, and throws the errors that occurred. */
  async end(): Promise<void> {
    const errors: unknown[] = []
    for (const act of this.#ends)
      await Promise.resolve()
        .then(act)
        .catch((error: unknown) => errors.push(error))
    if (errors.length > 0) throw new AggregateError(errors)
  }
}

/** The position of a candidate in its election. */
export type CandidatePosition = 'a' | 'b'

/** One election. */
export interface Election {
  readonly leaseName: string
  campaign(seat: CandidatePosition): Candidate
}

/** A process that runs electors of Tenure, each for a different Lease. */
class Host {
  readonly #child: ChildProcess
  readonly #watchdog = startWatchdog('SIGKILL')
  readonly #told = new EventEmitter().setMaxListeners(0)

  constructor() {
    this.#child = fork(join(import.meta.dirname, 'electors.mjs'), [], { execArgv: [] })
    this.#watchdog.guard(this.#child)
    this.#child.on('message', (told: Told & { readonly leaseName: string }) => this.#told.emit(told.leaseName, told))
  }

  campaign(campaign: Campaign): Candidate {
    const events: Told[] = []
    this.#told.on(campaign.leaseName, (told: Told) => void events.push(told))
    this.#child.send(campaign)
    return { identity: campaign.identity, events }
  }

  async end(): Promise<void> {
    const { exitCode } = this.#child
    await end(this.#child, 'SIGKILL')
    this.#watchdog.dismiss()
    if (exitCode !== null) throw new Error(`the process of the electors ended unexpectedly: ${exitCode}`)
  }
}

/** Returns the beliefs, each from a start to the next end. */
function beliefsOf({ identity, events }: Candidate) {
  return events.flatMap(({ event, monotonicMs: fromMs }, index) => {
    if (event !== 'started') return []
    const ended = events.slice(index).find(({ event: later }) => later === 'stopped')
    return { identity, fromMs, toMs: ended?.monotonicMs ?? Infinity }
  })
}
