/** What is explored: all that matters of some electors, their store and the network, at one moment. Data only. */
import type { DriverState } from '../../driver.ts'
import type { Call, Settings } from '../../election-state.ts'
import type { LeaseRecord, Outcome } from '../../lease-store.ts'
import type { Between } from './between.ts'

/** How long a lease lasts. Time goes on in ticks, a whole share of it. */
export const leaseDurationMs = 1_200

/** The kinds of fault that `explore()` knows. */
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
] as const

/** Faults of relays, where some stand between electors and their store. */
export const relayFaults = [
  'relay-crash',
  'relay-stall',
  'relay-sleep',
  'relay-watch-end',
  'relay-watch-replay',
] as const

/** Everything that can go wrong. */
export type Fault = ExploredFault | (typeof relayFaults)[number]

/** One kind of fault. */
export type ExploredFault = (typeof exploredFaults)[number]

/** What does not change. */
export interface Setup {
  readonly settings: readonly Settings[]
  readonly tickMs: number
  /** How far each elector's clock goes in a tick. */
  readonly ticksMs: readonly number[]
  readonly faults: ReadonlySet<Fault>
  readonly expiry: 'observed' | 'own-clock'
  readonly jitter: readonly number[]
  /** A message takes at most this long. */
  readonly delayTicks: number
  /** What stands between the electors and the store. */
  readonly between?: Between | undefined
}

/** A relay. While it is down, its memory is what the next one begins with. */
export interface RelaySlot {
  readonly life: Slot['life']
  readonly memory: object
}

/** One process, or the place where it will be started. Its clocks say 0: all times are relative to now. */
export interface Slot extends Partial<DriverState> {
  readonly life: 'down' | 'running' | 'stalled' | 'asleep'
  /** When the call in flight is given up. */
  readonly boundAtMs: number | undefined
  readonly watching: boolean
  /** The newest term it has led. */
  readonly ledTerm: number
  /** Whether that was announced as won and not yet as lost. */
  readonly open: boolean
  /** Pieces of work that have not settled. */
  readonly work: number
  /** Whether it was told to stop. */
  readonly toldToStop: boolean
  /** Whether it was told to step down, and has not said yet that it did. */
  readonly toldToYield: boolean
  /** Whether it stood still, or its record was deleted, since its last renewal: its leadership may end. */
  readonly disturbed: boolean
  /** Whether the store has taken its grant back: it need not know yet. */
  readonly gaveBack: boolean
}

/** A process that is not there. */
export const down: Slot = {
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
}

/** A process that is there. */
export type Process = Slot & DriverState

export function isProcess(slot: Slot | undefined): slot is Process {
  return slot?.state !== undefined
}

/** What a call gives. */
export interface Reply {
  readonly outcome?: Outcome | undefined
  readonly record?: LeaseRecord | undefined
  readonly failed?: boolean | undefined
}

/** Something on its way. `who` is the elector that it comes from or goes to; relays are counted after the electors. */
export interface Message {
  readonly kind: 'request' | 'reply' | 'event'
  readonly who: number
  /** The call it belongs to. */
  readonly id: number
  readonly verb?: Call['verb'] | undefined
  readonly claim?: Claim | undefined
  readonly reply?: Reply | undefined
  /** What an event shows. */
  readonly record?: LeaseRecord | undefined
  /** The highest term that an event tells of, if it tells more than the record. */
  readonly highestTerm?: number | undefined
  /** It is between this relay and the store. */
  readonly via?: number | undefined
  /** The version that the elector named itself, before a relay passed its acquire on. */
  readonly own?: string | undefined
  /** Its sender is no more: nobody waits for the answer. */
  readonly orphan: boolean
  /** It may arrive at any time from now on. */
  readonly late: boolean
  readonly ageTicks: number
}

/** What a call claims. */
export type Claim = Extract<Call, { claim: unknown }>['claim']

/** The store's server. */
export interface Server {
  readonly record: LeaseRecord | undefined
  /** The record before it, which a watch may replay. */
  readonly past: LeaseRecord | undefined
  readonly highestTerm: number
  readonly lastDurationMs: number | undefined
  /** When the lease ends, on the server's clock. */
  readonly endsAtMs: number
  /** Attempts that were granted. */
  readonly granted: readonly string[]
}

/** Everything, at one moment. */
export interface Scene {
  readonly server: Server
  readonly slots: readonly Slot[]
  readonly relays: readonly RelaySlot[]
  readonly messages: readonly Message[]
  /** How many more faults there may be. */
  readonly budget: number
  /** How many calls went wrong. 0: no leadership may end. 1: the same, unless messages take time. 2: each may end. */
  readonly strain: number
  /**
   * Whether nothing has happened in this tick so far. Processes are started, and go on, at dawn only: what they send or
   * do then may come at any point of the tick, so that nothing is left out.
   */
  readonly dawn: boolean
  /** The number of the last name. 0 and 1 are taken. */
  readonly names: number
}

/** The scene before anything happened: nobody has been started. */
export function firstScene(electors: number, budget: number, between?: Between): Scene {
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
    budget,
    strain: 0,
    dawn: true,
    names: 1,
  }
}
