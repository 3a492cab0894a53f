import type { Candidate } from '../../../testing/src/simulation/candidate.ts'
import type { NetworkCondition } from '../../../testing/src/simulation/link.ts'
import type { Machine } from '../../../testing/src/simulation/machine.ts'
import type { Cluster, RelayProcess } from './cluster.ts'
import { SpecOnlyCandidate } from './spec-only-candidate.ts'
import type { Global, Scene } from './scene.ts'

export const faultKinds = [
  'candidate-crash',
  'candidate-gone',
  'candidate-pause',
  'candidate-sleep',
  'candidate-stop',
  'candidate-cut-off',
  'candidate-lossy',
  'candidate-fading',
  'relay-crash',
  'relay-pause',
  'relay-sleep',
  'relay-cut-from-api',
  'relay-cut-from-global',
  'relay-lossy',
  'relay-watch-broken',
  'lost-status-write',
  'api-down',
  'api-restored',
  'resource-deleted',
  'cluster-down',
  'namesake',
  'global-hangs',
  'global-fails',
  'wall-jump',
] as const
export type FaultKind = (typeof faultKinds)[number]

/** How many times each kind of fault occurred. */
export type FaultCounts = Partial<Record<FaultKind, number>>

/** Injects one fault after another. */
export class Faults {
  readonly counts: FaultCounts = {}
  readonly #scene: Scene
  readonly #clusters: readonly Cluster[]
  readonly #global: Global
  readonly #kinds: readonly FaultKind[]
  readonly #meanMs: number
  #over = false

  constructor(
    scene: Scene,
    clusters: readonly Cluster[],
    global: Global,
    options: { kinds: readonly FaultKind[]; meanMs: number },
  ) {
    this.#scene = scene
    this.#clusters = clusters
    this.#global = global
    this.#kinds = options.kinds
    this.#meanMs = options.meanMs
  }

  start(): void {
    if (this.#kinds.length === 0) return
    const { world, random } = this.#scene
    world.after(random.waiting(this.#meanMs), () => {
      if (this.#over) return
      const kind = random.pick(this.#kinds)
      this.counts[kind] = (this.counts[kind] ?? 0) + 1
      this.#cause(kind)
      this.start()
    })
  }

  stop(): void {
    this.#over = true
  }

  #cause(kind: FaultKind): void {
    const { world, random, timeline, checker, leaseDurationMs } = this.#scene
    const forMs = random.magnitude(leaseDurationMs / 30, leaseDurationMs * 2)
    const cluster = this.#victim()
    timeline.add(world.nowMs, 'FAULT', `${kind} in ${cluster.name} for ${Math.round(forMs)} ms`)
    checker.fault(world.nowMs + forMs)
    if (kind.startsWith('candidate') || kind === 'namesake') return this.#strikeCandidate(kind, cluster, forMs)
    if (kind.startsWith('relay') || kind === 'lost-status-write') return this.#strikeRelay(kind, cluster, forMs)
    switch (kind) {
      case 'api-down':
        cluster.api.fail(forMs)
        return this.#breakWatches(cluster)
      case 'api-restored':
        if (cluster.restore()) this.#breakWatches(cluster)
        return
      case 'resource-deleted':
        return cluster.deleteResource()
      case 'cluster-down':
        cluster.api.hang(forMs)
        cluster.relays.forEach((relay) => this.#stand(relay.machine, forMs))
        return cluster.candidates.forEach((candidate) => this.#crash(cluster, candidate, forMs))
      case 'global-hangs':
        return this.#global.server.hang(forMs)
      case 'global-fails':
        return this.#global.server.fail(forMs)
      default:
        return this.#machines(cluster).forEach((machine) =>
          machine.jumpWall(random.pick([-3_600_000, -1_000, 40, 3_600_000])),
        )
    }
  }

  #strikeCandidate(kind: FaultKind, cluster: Cluster, forMs: number): void {
    const { world, random, checker, leaseDurationMs } = this.#scene
    if (cluster.candidates.length === 0) return
    const leaders = cluster.candidates.filter((candidate) => candidate.believes())
    const candidate = random.pick(leaders.length > 0 && random.chance(0.7) ? leaders : cluster.candidates)
    const isSpecOnly = candidate instanceof SpecOnlyCandidate
    switch (kind) {
      case 'candidate-crash':
        return this.#crash(cluster, candidate, forMs)
      case 'candidate-gone':
        // This is long enough that another candidate must have taken over.
        return this.#crash(cluster, candidate, 12 * leaseDurationMs)
      case 'candidate-pause':
        // client-go does not check a clock when it is asked whether it leads, so no store can prevent an overlap here.
        return isSpecOnly ? undefined : this.#stand(candidate.machine, forMs)
      case 'candidate-sleep':
        return isSpecOnly ? undefined : this.#stand(candidate.machine, forMs, 'sleep')
      case 'candidate-stop':
        if (candidate.machine.state === 'dead') return
        void candidate.stop()
        if (isSpecOnly) world.after(forMs, () => cluster.replace(candidate))
        return
      case 'candidate-cut-off':
        return this.#storm([candidate.link], forMs, random.pick([cut, { cutDown: true }, { cutUp: true }]))
      case 'candidate-fading':
        // Answers are slow for a while and then stop.
        this.#storm([candidate.link], leaseDurationMs, { answerDelayMs: random.between(0.05, 0.3) * leaseDurationMs })
        world.after(leaseDurationMs, () => this.#storm([candidate.link], 2 * leaseDurationMs, cut))
        return checker.fault(world.nowMs + 3 * leaseDurationMs)
      case 'namesake':
        // An operator considers the pod dead, removes its resource, and starts another pod of the same name. The first
        // may still lead.
        if (!isSpecOnly) return
        this.#storm([candidate.link], 2 * leaseDurationMs, cut)
        cluster.deleteResource()
        cluster.addNamesake(candidate)
        return world.after(2 * leaseDurationMs, () => {
          candidate.machine.crash()
          cluster.remove(candidate)
        }) as unknown as void
      default:
        return this.#storm([candidate.link], forMs, this.#lossy())
    }
  }

  #strikeRelay(kind: FaultKind, cluster: Cluster, forMs: number): void {
    const { world, random } = this.#scene
    const index = Math.floor(random.next() * cluster.relays.length)
    const relay = cluster.relays[index] as RelayProcess
    switch (kind) {
      case 'relay-crash':
        if (relay.machine.state === 'dead') return
        cluster.crashRelay(index)
        return world.after(forMs, () => cluster.addRelay(index)) as unknown as void
      case 'relay-pause':
        return this.#stand(relay.machine, forMs)
      case 'relay-sleep':
        return this.#stand(relay.machine, forMs, 'sleep')
      case 'relay-cut-from-api':
        return this.#storm([relay.toApi], forMs, random.pick([cut, { cutDown: true }, { cutUp: true }]))
      case 'relay-cut-from-global':
        return this.#storm([relay.toGlobal], forMs, random.pick([cut, { cutDown: true }, { cutUp: true }]))
      case 'relay-watch-broken':
        relay.toApi.breakWatches()
        return relay.toGlobal.breakWatches()
      case 'lost-status-write':
        return relay.toApi.loseNext()
      default:
        return this.#storm([random.pick([relay.toApi, relay.toGlobal])], forMs, this.#lossy())
    }
  }

  #lossy(): Partial<NetworkCondition> {
    const { random, leaseDurationMs } = this.#scene
    return {
      broken: random.next() * 0.5,
      lost: random.next() * 0.5,
      doubled: random.next() * 0.5,
      delayed: random.next() * 0.5,
      delayMs: random.magnitude(100, 2 * leaseDurationMs),
      latencyMs: random.magnitude(1, leaseDurationMs / 6),
      silentWatch: random.chance(0.3),
    }
  }

  #storm(links: readonly Candidate['link'][], forMs: number, change: Partial<NetworkCondition>): void {
    const { world, checker } = this.#scene
    for (const link of links) link.storm(change, forMs)
    checker.fault(world.nowMs + forMs + (change.delayMs ?? 0))
  }

  #stand(machine: Machine, forMs: number, how: 'pause' | 'sleep' = 'pause'): void {
    machine[how]()
    this.#scene.world.after(forMs, () => machine.resume())
  }

  #crash(cluster: Cluster, candidate: Cluster['candidates'][number], forMs: number): void {
    candidate.machine.crash()
    this.#scene.world.after(forMs, () => cluster.replace(candidate))
  }

  #breakWatches(cluster: Cluster): void {
    for (const { toApi } of cluster.relays) toApi.breakWatches()
    for (const { link } of cluster.candidates) link.breakWatches()
  }

  #machines(cluster: Cluster): Machine[] {
    return [...cluster.relays, ...cluster.candidates].map(({ machine }) => machine)
  }

  /** Picks the leader's cluster more often, because faults there test more. */
  #victim(): Cluster {
    const { random } = this.#scene
    const leading = this.#clusters.filter(({ candidates }) => candidates.some((candidate) => candidate.believes()))
    return random.pick(leading.length > 0 && random.chance(0.6) ? leading : this.#clusters)
  }
}

const cut: Partial<NetworkCondition> = { cutUp: true, cutDown: true }
