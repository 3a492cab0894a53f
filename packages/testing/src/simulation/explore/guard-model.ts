/**
 * The guards of processes, run by the real decisions of `guard.ts` and the real registrations of an elector.
 *
 * Guards may be arbitrarily slow: after its process has ended, each call of a guard may reach the store at any moment,
 * or never. That includes guards that were killed, paused or cut off.
 */
import type { HeldClaim, Outcome } from 'tenure'
import {
  ElectorGuard,
  guardStep,
  initialGuardState,
  nextGuardWakeMs,
  type Call,
  type ElectionState,
  type FieldVisitor,
  type GuardedAttempt,
  type GuardEffect,
  type GuardInput,
  type GuardRegistry,
  type GuardState,
  writeIdWith,
} from 'tenure/internal'
import { dead, nameOf, type FieldWriter } from './fields.ts'
import { handle } from './server.ts'
import type { TransitionChecker } from './checker.ts'
import { leaseDurationMs, type ModelState, type Setup } from './model-state.ts'

/** A guard's progress on one attempt after its process has ended. The call is in flight to the store. */
export interface ModelPursuit {
  readonly attempt: GuardedAttempt
  /** The release that the guard has sent. Undefined if it has sent a read. */
  readonly claim: HeldClaim | undefined
}

/** The guard of a running process. */
export class ModelGuard implements GuardRegistry {
  readonly problem = undefined
  readonly #elector: ElectorGuard
  #state: GuardState

  constructor(attempts: readonly GuardedAttempt[]) {
    this.#state = { ...initialGuardState, attempts }
    const names = attempts.map(({ attempt }) => attempt)
    this.#elector = new ElectorGuard('', 0, this, names)
  }

  get attempts(): readonly GuardedAttempt[] {
    return this.#state.attempts
  }

  sends(call: Call, { highestTerm }: ElectionState): void {
    void this.#elector.sending(call, highestTerm)
  }

  answered(verb: Call['verb'] | undefined, outcome: Outcome, state: ElectionState): void {
    const attempt = verb === 'acquire' ? state.attempt?.id : outcome.record?.attempt
    if (attempt !== undefined) this.#elector.answered({ verb, claim: { attempt } } as Call, outcome)
  }

  stepped(state: ElectionState): void {
    this.#elector.stepped(state)
  }

  register(attempt: GuardedAttempt): undefined {
    this.#take({ type: 'register', attempt, nowMs: 0 })
  }

  sending(attempt: string, writeId: string): undefined {
    this.#take({ type: 'sending', attempt, writeId, nowMs: 0 })
  }

  unregister(attempt: string): void {
    this.#take({ type: 'unregister', attempt, nowMs: 0 })
  }

  join(): undefined {}

  leave(): void {}

  #take(input: GuardInput): void {
    this.#state = guardStep(this.#state, input).state
  }
}

/**
 * Returns the actions of a guard when its pipe has ended. `status`: the state of the process according to the kernel.
 */
export function pipeEnded(
  attempts: readonly GuardedAttempt[] | undefined,
  status: 'gone' | 'running',
): readonly ModelPursuit[] {
  if (!attempts) return []
  const { state, effects } = guardStep({ ...initialGuardState, attempts }, { type: 'pipe-ended', nowMs: 0 })
  if (!effects.some(({ type }) => type === 'look-at-process')) return []
  return sent(guardStep(state, { type: 'process', status, nowMs: 0 }).effects)
}

/** A call of a guard reaches the store, and the guard decides what to do next. */
export function carryOutPursuit(
  scene: ModelState,
  index: number,
  { setup, course }: { readonly setup: Setup; readonly course: TransitionChecker },
): ModelState {
  const pursuit = scene.pursuits[index]
  if (!pursuit) return scene
  const { attempt } = pursuit.attempt
  const rest = { ...scene, pursuits: scene.pursuits.toSpliced(index, 1) }
  const go = (next: ModelState, input: GuardInput): ModelState => {
    return { ...next, pursuits: [...next.pursuits, ...sent(decided(pursuit, input))] }
  }
  if (!pursuit.claim) {
    const names = scene.names + 1
    const { record } = scene.server
    return go({ ...rest, names }, { type: 'found', attempt, record, writeId: nameOf(names), nowMs: 0 })
  }
  const request = { kind: 'request', who: -1, id: 0, verb: 'release', orphan: true, late: true, ageTicks: 0 } as const
  const { scene: after, reply } = handle(rest, { ...request, claim: pursuit.claim }, setup, course)
  const ok = reply.outcome?.ok === true
  if (ok) course.counts.crashReleases += 1
  return go(after, { type: 'released', attempt, ok, nowMs: 0 })
}

/** The guard waits between two reads. The exact time does not matter, so assume that it has passed. */
function decided({ attempt, claim }: ModelPursuit, input: GuardInput): readonly GuardEffect[] {
  const pending = claim ? ('release' as const) : ('read' as const)
  const pursuits = [{ attempt, dueAtMs: 0, untilMs: Infinity, tries: 0, pending }]
  const { state, effects } = guardStep({ ...initialGuardState, phase: 'releasing', pursuits }, input)
  const wakeMs = nextGuardWakeMs(state)
  return effects.length > 0 || wakeMs === undefined
    ? effects
    : guardStep(state, { type: 'wake', nowMs: wakeMs }).effects
}

function sent(effects: readonly GuardEffect[]): readonly ModelPursuit[] {
  return effects.flatMap((effect): ModelPursuit[] => {
    if (effect.type === 'read') return [{ attempt: effect.attempt, claim: undefined }]
    return effect.type === 'release' ? [{ attempt: effect.attempt, claim: effect.claim }] : []
  })
}

/** Passes every field of an attempt through `fields`. */
export function guardedWith(fields: FieldVisitor, guarded: GuardedAttempt): GuardedAttempt {
  return {
    storeUrl: '',
    election: 'e',
    holder: fields.value(guarded.holder),
    attempt: fields.attempt(guarded.attempt),
    afterTerm: fields.term(guarded.afterTerm),
    leaseDurationMs,
    afterMs: 0,
    writeIds: fields.each(guarded.writeIds, writeIdWith),
  } satisfies { [K in keyof GuardedAttempt]-?: unknown }
}

/** Returns an attempt without names that can never be matched again. */
export function rememberedAttempt(guarded: GuardedAttempt, writer: FieldWriter): GuardedAttempt {
  const attempt = writer.isAttempt(guarded.attempt) ? guarded.attempt : dead
  return { ...guarded, attempt, writeIds: guarded.writeIds.filter((id) => writer.isWriteId(id)) }
}

/** Returns the attempts that can still be matched. */
export function rememberedAttempts(
  attempts: readonly GuardedAttempt[],
  writer: FieldWriter,
): readonly GuardedAttempt[] {
  return attempts
    .filter(({ attempt }) => writer.isAttempt(attempt))
    .map((guarded) => rememberedAttempt(guarded, writer))
}
