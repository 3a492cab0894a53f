import type { Candidate } from './candidate.ts'
import type { Checker } from './checker.ts'
import type { SimulatedFleet } from './fleet.ts'
import type { NetworkCondition } from './link.ts'
import type { Random } from './random.ts'
import type { Timeline } from './timeline.ts'
import type { World } from './world.ts'

/** The kinds of fault that a simulation can cause. */
export const faultKinds = [
  'crash',
  'pause',
  'sleep',
  'wall-jump',
  'partition',
  'deaf',
  'mute',
  'lost-call',
  'lossy',
  'fading',
  'slow-handover',
  'hang',
  'errors',
  'broken-watch',
  'silent-watch',
  'touched-record',
  'deleted-record',
  'stop',
  'step-down',
  'clone',
  'guard-crash',
  'guard-pause',
  'guard-partition',
  'closed-pipe',
  'full-pipe',
  'ineligible',
  'no-progress',
  'hand-over',
] as const

/** A fault that `simulate` can cause. */
export type FaultKind = (typeof faultKinds)[number]

/** The kinds of fault that need a guard. */
export const guardFaults: readonly FaultKind[] = [
  'guard-crash',
  'guard-pause',
  'guard-partition',
  'closed-pipe',
  'full-pipe',
]

/** The kinds of fault that are about who should lead. */
export const preferenceFaults: readonly FaultKind[] = ['ineligible', 'no-progress', 'hand-over']

/** These faults must not cost any leader its leadership. */
const harmless: readonly FaultKind[] = ['wall-jump', 'touched-record', 'broken-watch', 'lost-call', ...guardFaults]

/** Causes faults at random times, for random durations, to random candidates. */
export class Faults {
  readonly #world: World
  readonly #random: Random
  readonly #timeline: Timeline
  readonly #checker: Checker
  readonly #fleet: SimulatedFleet
  readonly #kinds: readonly FaultKind[]
  readonly #leaseDurationMs: number
  readonly #meanMs: number
  readonly #fragile: boolean
  #lostCallAtMs = -Infinity
  #over = false

  constructor(options: {
    world: World
    random: Random
    timeline: Timeline
    checker: Checker
    fleet: SimulatedFleet
    kinds: readonly FaultKind[]
    leaseDurationMs: number
    meanMs: number
    /** Whether even the faults of `harmless` may end a leadership in this fleet. */
    fragile: boolean
  }) {
    this.#world = options.world
    this.#random = options.random
    this.#timeline = options.timeline
    this.#checker = options.checker
    this.#fleet = options.fleet
    this.#kinds = options.kinds
    this.#leaseDurationMs = options.leaseDurationMs
    this.#meanMs = options.meanMs
    this.#fragile = options.fragile
  }

  start(): void {
    if (this.#kinds.length === 0) return
    this.#world.after(this.#random.waiting(this.#meanMs), () => {
      if (this.#over) return
      this.#cause(this.#random.pick(this.#kinds))
      this.start()
    })
  }

  stop(): void {
    this.#over = true
  }

  #cause(kind: FaultKind): void {
    const victim = this.#victim()
    const forMs = this.#random.magnitude(this.#leaseDurationMs / 30, this.#leaseDurationMs * 3)
    this.#timeline.add(this.#world.nowMs, 'FAULT', `${kind} of ${victim.name} for ${Math.round(forMs)} ms`)
    if (this.#fragile || !harmless.includes(kind))
      this.#checker.fault(this.#world.nowMs + (kind === 'crash' ? 0 : forMs))
    const { counts } = this.#checker
    const { machine, link, guard } = victim
    if (guardFaults.includes(kind)) counts.guardFaults += 1
    switch (kind) {
      case 'crash':
        counts.crashes += 1
        this.#fleet.crash(victim)
        return this.#later(forMs, () => this.#fleet.replace(victim))
      case 'pause':
        if (forMs > this.#leaseDurationMs) counts.longPauses += 1
        machine.pause()
        return this.#later(forMs, () => machine.resume())
      case 'sleep':
        counts.sleeps += 1
        machine.sleep()
        return this.#later(forMs, () => machine.resume())
      case 'wall-jump':
        counts.wallJumps += 1
        return machine.jumpWall(this.#random.pick([-3_600_000, -1_000, -1, 40, 60_000, 3_600_000]))
      case 'partition':
        return this.#storm(victim, forMs, { cutUp: true, cutDown: true })
      case 'deaf':
        return this.#storm(victim, forMs, { cutDown: true })
      case 'mute':
        return this.#storm(victim, forMs, { cutUp: true })
      case 'lost-call': {
        // A connection that died silently costs one call. One such loss at a time is harmless.
        const sinceMs = this.#world.nowMs - this.#lostCallAtMs
        if (sinceMs < 4 * this.#leaseDurationMs) this.#checker.fault(this.#world.nowMs + forMs)
        this.#lostCallAtMs = this.#world.nowMs
        return link.loseNext()
      }
      case 'lossy':
        return this.#storm(victim, forMs, {
          broken: this.#random.next() * 0.5,
          lost: this.#random.next() * 0.5,
          doubled: this.#random.next() * 0.5,
          delayed: this.#random.next() * 0.5,
          delayMs: this.#random.magnitude(100, 2 * this.#leaseDurationMs),
          latencyMs: this.#random.magnitude(1, this.#leaseDurationMs / 3),
        })
      case 'fading': {
        // The network slows down for a while and then fails completely.
        const slowMs = this.#random.between(0.02, 0.4) * this.#leaseDurationMs
        const slow = this.#random.chance(0.5) ? { latencyMs: slowMs / 2 } : { answerDelayMs: slowMs }
        this.#storm(victim, this.#leaseDurationMs, slow)
        this.#checker.fault(this.#world.nowMs + 3 * this.#leaseDurationMs)
        const cutUp = this.#random.chance(0.5)
        const cutDown = !cutUp || this.#random.chance(0.5)
        const cut = () => this.#storm(victim, 2 * this.#leaseDurationMs, { cutUp, cutDown })
        return this.#later(this.#random.next() * this.#leaseDurationMs, cut)
      }
      case 'slow-handover': {
        // Answers are slow for all processes while leadership changes, and then the leader's network fails.
        const answerDelayMs = this.#random.between(0.02, 0.3) * this.#leaseDurationMs
        for (const candidate of this.#fleet.candidates) {
          this.#storm(candidate, this.#leaseDurationMs, { answerDelayMs })
        }
        this.#checker.fault(this.#world.nowMs + 4 * this.#leaseDurationMs)
        void victim.elector.stepDown({ cooldownMs: this.#leaseDurationMs })
        return this.#later(this.#random.next() * this.#leaseDurationMs, () => {
          const leader = this.#fleet.candidates.find(({ openTerm }) => openTerm !== undefined)
          if (leader) this.#storm(leader, 2 * this.#leaseDurationMs, { cutUp: true, cutDown: true })
        })
      }
      case 'hang':
        return this.#fleet.server.hang(forMs)
      case 'errors':
        return this.#fleet.server.fail(forMs)
      case 'broken-watch':
        return link.breakWatches()
      case 'silent-watch':
        return this.#storm(victim, forMs, { silentWatch: true })
      case 'touched-record':
        return void this.#fleet.touchRecord()
      case 'deleted-record':
        if (!this.#fleet.mayDelete()) return
        counts.vanished += 1
        return this.#fleet.deleteRecord()
      case 'stop':
        if (machine.state !== 'dead') victim.stop()
        return
      case 'step-down':
        return void victim.elector.stepDown({ cooldownMs: this.#random.next() * this.#leaseDurationMs })
      case 'clone': {
        const clonable = machine.state === 'running' && machine.backlog === 0 && !machine.hasSlept && !victim.stopping
        const { phase } = victim.elector.explain()
        if (!clonable || (phase !== 'leading' && phase !== 'standby')) return
        counts.clones += 1
        this.#checker.fault(this.#world.nowMs + 12 * this.#leaseDurationMs)
        return this.#fleet.clone(victim, 10 * this.#leaseDurationMs)
      }
      case 'ineligible':
        return victim.beUnfit('ineligible', forMs)
      case 'no-progress':
        return victim.beUnfit('stalled', forMs)
      case 'hand-over': {
        const others = this.#fleet.candidates.map(({ name }) => name).filter((name) => name !== victim.name)
        const to = this.#random.pick([...others, 'nobody'])
        if (victim.preference?.present && this.#random.chance(0.5)) return this.#fleet.requestHandOver(to)
        return void victim.elector.stepDown({ to, cooldownMs: this.#random.next() * this.#leaseDurationMs })
      }
      case 'guard-crash':
        return guard?.kill()
      case 'guard-pause':
        return guard?.pause(forMs)
      case 'guard-partition':
        return guard?.cutOff(forMs)
      case 'closed-pipe':
        return guard?.closePipe()
      case 'full-pipe':
        return guard?.fill(forMs)
    }
  }

  /** Picks a leader more often, because faults of a leader test more. */
  #victim(): Candidate {
    const { candidates } = this.#fleet
    const leaders = candidates.filter((candidate) => candidate.openTerm !== undefined)
    return this.#random.pick(leaders.length > 0 && this.#random.chance(0.6) ? leaders : candidates)
  }

  #storm({ link }: Candidate, forMs: number, change: Partial<NetworkCondition>): void {
    link.storm(change, forMs)
    // Messages that were sent during the fault may stay in flight after it.
    this.#checker.fault(this.#world.nowMs + forMs + (change.delayMs ?? 0))
  }

  #later(forMs: number, run: () => void): void {
    this.#world.after(forMs, run)
  }
}
