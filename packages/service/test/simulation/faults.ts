import type { NetworkCondition } from '../../../testing/src/simulation/link.ts'
import type { Machine } from '../../../testing/src/simulation/machine.ts'
import type { Client, Roads } from './client.ts'
import type { ReplicaProcess } from './replica-process.ts'
import type { Scene } from './scene.ts'

export const faultKinds = [
  'crash',
  'pause',
  'sleep',
  'stop',
  'wall-jump',
  'cut-off',
  'deaf',
  'mute',
  'lossy',
  'slow',
  'late',
  'slow-load',
  'server-hangs',
  'server-fails',
  'cancelled-commit',
  'failover',
  'lost-tail',
  'lost-lease-key',
  'client-pause',
  'client-crash',
  'bad-roads',
] as const
export type FaultKind = (typeof faultKinds)[number]
export type FaultCounts = Partial<Record<FaultKind, number>>

/** The processes of a world, and how each of them is replaced. */
export interface Cast {
  readonly replicas: readonly { current: ReplicaProcess }[]
  readonly clients: { current: Client }[]
  readonly roads: Roads
  replaceReplica(place: { current: ReplicaProcess }): void
  replaceClient(place: { current: Client }): void
}

/** Injects faults, one after another. */
export class Faults {
  readonly counts: FaultCounts = {}
  readonly #scene: Scene
  readonly #cast: Cast
  readonly #kinds: readonly FaultKind[]
  readonly #meanMs: number
  #over = false

  constructor(scene: Scene, cast: Cast, options: { kinds: readonly FaultKind[]; meanMs: number }) {
    this.#scene = scene
    this.#cast = cast
    this.#kinds = options.kinds
    this.#meanMs = options.meanMs
  }

  start(): void {
    const { world, random } = this.#scene
    if (this.#kinds.length === 0) return
    world.after(random.waiting(this.#meanMs), () => {
      if (this.#over) return
      this.#cause(random.pick(this.#kinds))
      this.start()
    })
  }

  /** Injects no further faults. Interruptions in progress still end. */
  stop(): void {
    this.#over = true
  }

  #cause(kind: FaultKind): void {
    const { world, random, timeline, server, history, leaseMs } = this.#scene
    const { clients, roads } = this.#cast
    const place = this.#victim()
    if (!place) return
    const { machine, link, name } = place.current
    const forMs = random.magnitude(leaseMs / 30, leaseMs * 4)
    this.counts[kind] = (this.counts[kind] ?? 0) + 1
    timeline.add(world.nowMs, 'FAULT', `${kind} of ${name} for ${Math.round(forMs)} ms`)
    const storm = (change: Partial<NetworkCondition>) => link.storm(change, forMs)
    switch (kind) {
      case 'crash':
        machine.crash()
        return void world.after(forMs, () => this.#cast.replaceReplica(place))
      case 'pause':
        return this.#halt(machine, () => machine.pause(), forMs)
      case 'sleep':
        return this.#halt(machine, () => machine.sleep(), forMs)
      case 'stop':
        return this.#stop(place)
      case 'wall-jump':
        return machine.jumpWall(random.pick([-3_600_000, -1_000, 40, 60_000, 3_600_000]))
      case 'cut-off':
        return storm({ cutUp: true, cutDown: true })
      case 'deaf':
        return storm({ cutDown: true })
      case 'mute':
        return storm({ cutUp: true })
      case 'lossy':
        return storm({
          lost: 0.15,
          doubled: 0.3,
          delayed: 0.4,
          delayMs: random.magnitude(50, 3 * leaseMs),
          broken: 0.2,
        })
      case 'slow':
        return storm({ latencyMs: random.magnitude(20, leaseMs / 6) })
      case 'late':
        return storm({ delayed: 0.8, delayMs: random.between(leaseMs, 3 * leaseMs) })
      case 'slow-load':
        server.pageMs = random.magnitude(10, leaseMs)
        return void world.after(4 * forMs, () => (server.pageMs = 0))
      case 'server-hangs':
        return server.weather.hang(forMs / 2)
      case 'server-fails':
        return server.weather.fail(forMs / 2)
      case 'cancelled-commit':
        server.storage.cancels = 1
        return void world.after(random.magnitude(20, 3_000), () => this.#failOver())
      case 'failover':
        return this.#failOver()
      case 'lost-tail':
        history.isLossy = true
        return server.storage.loseTail(random)
      case 'lost-lease-key':
        return server.loseLeaseKey()
      case 'client-pause': {
        const { machine: victim } = random.pick(clients).current
        return this.#halt(victim, () => victim.pause(), forMs)
      }
      case 'client-crash': {
        const client = random.pick(clients)
        if (client.current.machine.state === 'dead') return undefined
        client.current.machine.crash()
        return void world.after(forMs, () => this.#cast.replaceClient(client))
      }
      case 'bad-roads':
        Object.assign(roads, { lost: 0.2, delayed: 0.3, delayMs: random.magnitude(50, 2 * leaseMs) })
        return void world.after(forMs, () => Object.assign(roads, { lost: 0, delayed: 0 }))
    }
  }

  /** Usually the active replica, because it has the most to lose. */
  #victim(): { current: ReplicaProcess } | undefined {
    const { random } = this.#scene
    const running = this.#cast.replicas.filter(({ current }) => current.machine.state === 'running')
    const active = running.filter(({ current }) => current.replica.now().kind === 'local')
    if (active.length > 0 && random.chance(0.7)) return random.pick(active)
    return running.length > 0 ? random.pick(running) : undefined
  }

  #halt(machine: Machine, halt: () => void, forMs: number): void {
    if (machine.state !== 'running') return
    halt()
    this.#scene.world.after(forMs, () => machine.resume())
  }

  #stop(place: { current: ReplicaProcess }): void {
    const { current } = place
    if (current.isStopping || current.machine.state === 'dead') return
    current.isStopping = true
    void current.replica.stop().then(() => {
      if (place.current !== current || current.machine.state === 'dead') return
      current.machine.crash()
      this.#scene.world.after(100, () => this.#cast.replaceReplica(place))
    })
  }

  #failOver(): void {
    this.#scene.server.storage.cancels = 0
    this.#scene.server.storage.failOver()
  }
}
