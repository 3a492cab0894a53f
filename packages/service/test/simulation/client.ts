import type { Machine } from '../../../testing/src/simulation/machine.ts'
import type { GroupState, MaybePromise } from '../../src/groups/port.ts'
import type { LocalGroups } from '../../src/groups/local-groups.ts'
import type { Operation } from '../linearizable.ts'
import type { Recorded } from './history.ts'
import type { ReplicaProcess } from './replica-process.ts'
import { newMachine, type Scene } from './scene.ts'

/** The network between clients and replicas. */
export interface Roads {
  /** The probabilities for each message. */
  lost: number
  delayed: number
  delayMs: number
}

interface Belief {
  readonly term: number
  readonly ttlMs: number
  /** When the belief ends, on the client's own clock. */
  untilMs: number
}

/** A client that leads a group from time to time, and counts each lease from when it sent its call. */
export class Client {
  readonly name: string
  readonly groupId: string
  readonly machine: Machine
  readonly #scene: Scene
  readonly #replicas: readonly { current: ReplicaProcess }[]
  readonly #roads: Roads
  readonly #latencyMs: number
  readonly #stale: number
  readonly #reads: number
  readonly #resigns: number
  #belief: Belief | undefined
  #lastTerm = 0
  #attempts = 0
  #preferred: { current: ReplicaProcess } | undefined
  /** The highest term of an active replica that the client has seen. Undefined: the client does not send terms. */
  #highestTerm: number | undefined

  constructor(
    scene: Scene,
    options: {
      readonly name: string
      readonly groupId: string
      readonly replicas: readonly { current: ReplicaProcess }[]
      readonly roads: Roads
      readonly tellsTerms: boolean
      readonly stale: number
      readonly reads: number
      readonly resigns: number
    },
  ) {
    this.#scene = scene
    this.name = options.name
    this.groupId = options.groupId
    this.#replicas = options.replicas
    this.#roads = options.roads
    this.#stale = options.stale
    this.#reads = options.reads
    this.#resigns = options.resigns
    this.#highestTerm = options.tellsTerms ? 0 : undefined
    this.#latencyMs = scene.random.magnitude(0.5, 20)
    this.machine = newMachine(scene)
    void this.#live()
  }

  /** The term in which the client leads according to its own clock. */
  believes(): number | undefined {
    const isOver = !this.#belief || this.machine.state === 'dead' || this.#nowMs >= this.#belief.untilMs
    return isOver ? undefined : this.#belief?.term
  }

  get #nowMs(): number {
    return this.machine.clock.monotonicMs()
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.machine.clock.setTimer(ms, resolve))
  }

  async #live(): Promise<never> {
    const { random } = this.#scene
    for (;;) {
      const { ttlMs } = this.#belief ?? { ttlMs: 0 }
      await this.#sleep(ttlMs > 0 ? ttlMs * random.between(0.05, 0.4) : random.magnitude(30, 1_200))
      if (this.believes() === undefined) this.#belief = undefined
      if (random.chance(this.#reads)) await this.#read()
      else if (!this.#belief) await (random.chance(this.#stale) ? this.#renewStale() : this.#campaign())
      else await (random.chance(this.#resigns) ? this.#resign(this.#belief) : this.#renew(this.#belief))
    }
  }

  async #campaign(): Promise<void> {
    const { random, history } = this.#scene
    const ttlMs = random.magnitude(500, 6_000)
    const waitMs = random.chance(0.3) ? random.between(100, 2_000) : 0
    const attempt = `${this.name}.${++this.#attempts}`
    const claim = {
      groupId: this.groupId,
      nodeId: this.name,
      attempt,
      attemptIsOnce: false,
      ttlMs,
      metadata: '{}',
      waitMs,
    }
    const sentMs = this.#nowMs
    const call = { type: 'campaign', ttlMs: this.#counted(ttlMs) } as const
    const standing = await this.#ask(call, (groups) => groups.campaign(claim, new AbortController().signal), {
      patienceMs: waitMs + 1_000,
      onAnswer: ({ granted, lease }) => granted && lease && history.granted(this.groupId, lease.term, attempt),
    })
    if (!standing?.granted || !standing.lease) return
    const { term } = standing.lease
    this.#lastTerm = term
    this.#belief = { term, ttlMs, untilMs: sentMs + this.#counted(ttlMs) }
  }

  async #renew(belief: Belief): Promise<void> {
    const { random } = this.#scene
    const extendByMs = random.chance(0.6) ? belief.ttlMs : random.magnitude(500, 8_000)
    const checkpoint = random.chance(0.15) ? `page ${this.#nowMs}` : undefined
    const sentMs = this.#nowMs
    const standing = await this.#sendRenewal(belief.term, extendByMs, checkpoint)
    if (!standing || belief !== this.#belief || this.believes() === undefined) return
    if (standing.granted) belief.untilMs = Math.max(belief.untilMs, sentMs + this.#counted(extendByMs))
    else this.#belief = undefined
  }

  /** Renews a term that the client no longer believes in. No answer makes the client believe in that term again. */
  async #renewStale(): Promise<void> {
    if (this.#lastTerm > 0) await this.#sendRenewal(this.#lastTerm, 1_000)
  }

  #sendRenewal(term: number, extendByMs: number, checkpoint?: string): Promise<GroupState | undefined> {
    const { history, world } = this.#scene
    const claim = { groupId: this.groupId, nodeId: this.name, term, extendByMs, checkpoint }
    const call = { type: 'renew', term, ttlMs: this.#counted(extendByMs) } as const
    return this.#ask(call, (groups) => groups.renew(claim), {
      onAnswer: ({ granted }) => {
        if (granted) history.counts.renewals += 1
        else history.counts.refusals += 1
        if (granted) history.servedAtMs.set(this.groupId, world.nowMs)
      },
    })
  }

  async #resign({ term }: Belief): Promise<void> {
    const { history } = this.#scene
    this.#belief = undefined
    const claim = { groupId: this.groupId, nodeId: this.name, term }
    await this.#ask({ type: 'resign', term }, (groups) => groups.resign(claim), {
      onAnswer: ({ granted }) => granted && (history.counts.ends += 1),
    })
  }

  async #read(): Promise<void> {
    const { counts } = this.#scene.history
    await this.#ask({ type: 'leader' }, (groups) => groups.leader(this.groupId), {
      onAnswer: () => (counts.reads += 1),
    })
  }

  /**
   * The part of a duration that the client may rely on, because its own clock may be slow and the replica's clock fast.
   */
  #counted(ttlMs: number): number {
    const { driftRatio } = this.#scene
    return (ttlMs * (1 - driftRatio)) / (1 + driftRatio)
  }

  /** Resolves to undefined if there is no answer, or no meaningful one. */
  #ask(
    call: Operation['call'],
    ask: (groups: LocalGroups) => MaybePromise<GroupState>,
    { patienceMs = 1_000, onAnswer }: { patienceMs?: number; onAnswer: (standing: GroupState) => unknown },
  ): Promise<GroupState | undefined> {
    const { world, random, history } = this.#scene
    const recorded = history.begin(this.groupId, {
      sentMs: world.nowMs,
      answeredMs: Infinity,
      node: this.name,
      call,
      answer: undefined,
    })
    const stray = random.chance(0.15)
    const target = (!stray && this.#preferred) || random.pick(this.#replicas)
    const { current: process } = target
    return new Promise((resolve) => {
      const end = (standing: GroupState | undefined) => {
        timer.cancel()
        resolve(standing)
      }
      const timer = this.machine.clock.setTimer(patienceMs, () => {
        this.#preferred = undefined
        end(undefined)
      })
      let isOver = false
      const answered = (standing: GroupState | undefined, term: number) => {
        if (isOver) return
        isOver = true
        if (!standing) {
          this.#preferred = undefined
          return end(undefined)
        }
        this.#preferred = target
        if (this.#highestTerm !== undefined) this.#highestTerm = Math.max(this.#highestTerm, term)
        recorded.operation = { ...recorded.operation, answeredMs: world.nowMs, answer: answerOf(standing) }
        end(standing)
      }
      const reply = (standing: GroupState | undefined) => {
        const { term } = process
        recorded.untilMs = world.nowMs
        if (process.machine.state === 'dead') return
        if (standing) onAnswer(standing)
        this.#transmit(() => this.machine.deliver(() => answered(standing, term)))
      }
      this.#transmit(() => process.machine.deliver(() => this.#arrive(process, recorded, ask, reply)))
    })
  }

  #arrive(
    process: ReplicaProcess,
    recorded: Recorded,
    ask: (groups: LocalGroups) => MaybePromise<GroupState>,
    reply: (standing: GroupState | undefined) => void,
  ): void {
    recorded.isLost = false
    recorded.untilMs = this.#scene.world.nowMs
    if (this.#highestTerm !== undefined) process.replica.terms.observe(this.#highestTerm)
    const { groups } = process
    if (!groups) return reply(undefined)
    const asked = async () => ask(groups)
    asked().then(reply, () => reply(undefined))
  }

  #transmit(arrive: () => void): void {
    const { world, random } = this.#scene
    const { lost, delayed, delayMs } = this.#roads
    if (random.chance(lost)) return
    const lateMs = random.chance(delayed) ? random.next() * delayMs : 0
    world.after(this.#latencyMs * random.between(0.5, 1.5) + lateMs, arrive)
  }
}

function answerOf({ granted, lease }: GroupState): Operation['answer'] {
  return { ok: granted, leader: lease && !lease.ended ? { node: lease.nodeId, term: lease.term } : null }
}
