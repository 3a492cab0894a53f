/** The model state: everything relevant about the electors, their store, and the network at one moment. Data only. */
import type { LeaseRecord, Outcome } from 'tenure'
import type { Call, DriverState, ElectionSettings, GuardedAttempt } from 'tenure/internal'
import type { ModelPursuit } from './guard-model.ts'
import type { RelayModel } from './relay-model.ts'

/** The lease duration. Time advances in ticks, and a lease has a whole number of them. */
export const leaseDurationMs = 1_200

/** The kinds of fault that `explore()` can cause. */
export const exploredFaults = [
  'late',
  'lost',
  'doubled',
  'failed',
  'stall',
  'sleep',
  'crash',
  'step-down',
  'stop',
  'touched-record',
  'deleted-record',
  'lost-swap',
  'watch-end',
  'watch-replay',
  'closed-pipe',
  'ineligible',
  'no-progress',
  'hand-over',
] as const

/** The kinds of fault that are about who should lead. */
export const preferenceFaults = ['ineligible', 'no-progress', 'hand-over'] as const

/** The kinds of fault of relays between electors and their store. */
export const relayFaults = [
  'relay-crash',
  'relay-stall',
  'relay-sleep',
  'relay-watch-end',
  'relay-watch-replay',
] as const

/** A fault that the model knows. */
export type Fault = ExploredFault | (typeof relayFaults)[number]

/** A fault that `explore` accepts in its option `faults`. */
export type ExploredFault = (typeof exploredFaults)[number]

/** The constants of an exploration. */
export interface Setup {
  readonly settings: readonly ElectionSettings[]
  readonly tickMs: number
  /** How far each elector's clock advances in a tick. */
  readonly ticksMs: readonly number[]
  readonly faults: ReadonlySet<Fault>
  readonly expiry: 'observed' | 'own-clock'
  readonly jitter: readonly number[]
  /** The maximum number of ticks that a message takes. */
  readonly delayTicks: number
  /** Whether each process has a guard. */
  readonly isGuarded?: boolean | undefined
  /** Whether the first elector may see a member of a newer generation at any time. */
  readonly newerGeneration?: boolean | undefined
  /** How many ticks without a fault may pass until somebody leads. Default: three leases. */
  readonly leaderWithinTicks?: number | undefined
  /** The relay model, if there are relays between the electors and the store. */
  readonly between?: RelayModel | undefined
}

/** A relay. While the relay is down, `memory` is the state with which the next relay starts. */
export interface RelaySlot {
  readonly life: ModelSlot['life']
  readonly memory: object
}

/** One process, or the slot where it will start. Its clock reads 0, so all times are relative to now. */
export interface ModelSlot extends Partial<DriverState> {
  readonly life: 'down' | 'running' | 'stalled' | 'asleep'
  /** When the pending call times out. */
  readonly boundAtMs: number | undefined
  readonly watching: boolean
  /** The newest term in which it led. */
  readonly ledTerm: number
  /** Whether that term was reported as elected and not yet as lost. */
  readonly open: boolean
  /** The number of pieces of work that have not settled. */
  readonly work: number
  /** Whether it was told to stop. */
  readonly toldToStop: boolean
  /** Whether it was told to step down and has not reported that it did. */
  readonly toldToYield: boolean
  /** Whether the process was paused, or its record was deleted, since its last renewal. Its leadership may end. */
  readonly disturbed: boolean
  /** Whether the store has released its grant. The process may not know yet. */
  readonly gaveBack: boolean
  /** Why the process should not lead: it answers that it is not eligible, or its work makes no progress. */
  readonly unfitBy: 'ineligible' | 'no-progress' | undefined
  /** When that began, or when the process began to lead or to run again. `-Infinity` if it may lead. */
  readonly unfitSinceMs: number
  /** The attempts that are registered with the guard of the process. Undefined if the process has no guard. */
  readonly guarded?: readonly GuardedAttempt[] | undefined
}

/** A slot without a process. */
export const down: ModelSlot = {
  life: 'down',
  boundAtMs: undefined,
  watching: false,
  ledTerm: 0,
  open: false,
  work: 0,
  toldToStop: false,
  toldToYield: false,
  disturbed: false,
  gaveBack: false,
  unfitBy: undefined,
  unfitSinceMs: -Infinity,
}

/** A slot with a process. */
export type ModelProcess = ModelSlot & DriverState

export function isProcess(slot: ModelSlot | undefined): slot is ModelProcess {
  return slot?.state !== undefined
}

/** The result of a call. */
export interface ModelReply {
  readonly outcome?: Outcome | undefined
  readonly record?: LeaseRecord | undefined
  readonly failed?: boolean | undefined
}

/** A message in flight. `who` is the elector that sent or receives it. Relays are numbered after the electors. */
export interface ModelMessage {
  readonly kind: 'request' | 'reply' | 'event'
  readonly who: number
  /** The call that the message belongs to. */
  readonly id: number
  readonly verb?: Call['verb'] | undefined
  readonly claim?: Claim | undefined
  readonly reply?: ModelReply | undefined
  /** The record that an event shows. */
  readonly record?: LeaseRecord | undefined
  /** The highest term that an event shows, if it is not that of the record. */
  readonly highestTerm?: number | undefined
  /** The relay, if the message is between a relay and the store. */
  readonly via?: number | undefined
  /** The expired version that the elector named before a relay forwarded its acquire. */
  readonly own?: string | undefined
  /** Whether the sender is gone, so that nobody waits for the answer. */
  readonly orphan: boolean
  /** Whether the message may arrive at any time from now on. */
  readonly late: boolean
  readonly ageTicks: number
}

/** The claim of a call. */
export type Claim = Extract<Call, { claim: unknown }>['claim']

/** The store's server. */
export interface ModelServer {
  readonly record: LeaseRecord | undefined
  /** The previous record, which a watch may replay. */
  readonly past: LeaseRecord | undefined
  readonly highestTerm: number
  readonly lastDurationMs: number | undefined
  /** When the lease expires, on the server's clock. */
  readonly endsAtMs: number
  /** The attempts that were granted. */
  readonly granted: readonly string[]
}

/** The whole model at one moment. */
export interface ModelState {
  readonly server: ModelServer
  readonly slots: readonly ModelSlot[]
  readonly relays: readonly RelaySlot[]
  readonly messages: readonly ModelMessage[]
  /** The calls of guards whose processes have ended. */
  readonly pursuits: readonly ModelPursuit[]
  /** How many more faults may occur. */
  readonly budget: number
  /**
   * How many calls have failed. 0: no leadership may end. 1: the same, unless messages take time. 2: every leadership may
   * end.
   */
  readonly strain: number
  /**
   * Whether nothing has happened in this tick yet. Processes start and resume only at that point. Their messages and
   * actions may still happen at any point of the tick, so no order is missed.
   */
  readonly dawn: boolean
  /** The number of the newest name. 0 and 1 are reserved. */
  readonly names: number
}

/** Returns the initial state, in which no process has started. */
export function firstScene(electors: number, budget: number, between?: RelayModel): ModelState {
  return {
    server: {
      record: undefined,
      past: undefined,
      highestTerm: 0,
      lastDurationMs: undefined,
      endsAtMs: 0,
      granted: [],
    },
    slots: Array.from({ length: electors }, () => down),
    relays: Array.from({ length: between?.relays ?? 0 }, () => ({ life: 'running', memory: between?.blank ?? {} })),
    messages: [],
    pursuits: [],
    budget,
    strain: 0,
    dawn: true,
    names: 1,
  }
}
