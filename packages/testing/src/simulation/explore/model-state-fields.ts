/** The meaning of each field of a model state, as `election-fields.ts` defines it for an elector. */
import type { AcquireClaim, Granted, HeldClaim, Outcome, Refused } from 'tenure'
import { dueWith, type FieldVisitor, recordWith, stateWith, valueWith, writeIdWith } from 'tenure/internal'
import type { Claim, ModelMessage, ModelReply, ModelServer, ModelSlot } from './model-state.ts'

/** Passes every field of the server through `fields`, except granted attempts, which the encoding handles itself. */
export function serverWith(
  fields: FieldVisitor,
  server: ModelServer,
  matters: { readonly ownClock: boolean; readonly past: boolean },
): ModelServer {
  return {
    record: fields.maybe(server.record, recordWith),
    past: matters.past ? fields.maybe(server.past, recordWith) : undefined,
    highestTerm: fields.term(server.highestTerm),
    lastDurationMs: fields.maybe(server.lastDurationMs, valueWith),
    endsAtMs: matters.ownClock ? fields.due(server.endsAtMs) : 0,
    granted: server.granted,
  }
}

export function slotWith(fields: FieldVisitor, slot: ModelSlot): ModelSlot {
  return {
    life: fields.value(slot.life),
    state: fields.maybe(slot.state, stateWith),
    wakeAtMs: fields.maybe(slot.wakeAtMs, dueWith),
    flight: fields.maybe(slot.flight, callWith),
    boundAtMs: fields.maybe(slot.boundAtMs, dueWith),
    watching: fields.value(slot.watching),
    ledTerm: fields.term(slot.ledTerm),
    open: fields.value(slot.open),
    work: fields.value(slot.work),
    toldToStop: fields.value(slot.toldToStop),
    toldToYield: fields.value(slot.toldToYield),
    disturbed: fields.value(slot.disturbed),
    gaveBack: fields.value(slot.gaveBack),
    unfitBy: fields.maybe(slot.unfitBy, valueWith),
    unfitSinceMs: fields.moment(slot.unfitSinceMs),
    // The encoding handles these names itself.
    guarded: slot.guarded,
  } satisfies { [K in keyof ModelSlot]-?: unknown } as ModelSlot
}

/** `ageTicks`: the current age of the message. */
export function messageWith(fields: FieldVisitor, message: ModelMessage, ageTicks: number): ModelMessage {
  const verb = fields.maybe(message.verb, valueWith)
  return {
    kind: fields.value(message.kind),
    who: fields.value(message.who),
    id: fields.call(message.id),
    verb,
    claim: fields.maybe(message.claim, verb === 'acquire' ? acquireWith : heldWith),
    reply: fields.maybe(message.reply, replyWith),
    record: fields.maybe(message.record, recordWith),
    highestTerm: fields.maybe(message.highestTerm, termWith),
    via: fields.maybe(message.via, valueWith),
    own: fields.maybe(message.own, versionWith),
    orphan: fields.value(message.orphan),
    late: fields.value(message.late),
    ageTicks: fields.value(ageTicks),
  }
}

function acquireWith(fields: FieldVisitor, given: Claim): Claim {
  const claim = given as AcquireClaim
  return {
    election: claim.election,
    holder: fields.value(claim.holder),
    attempt: fields.attempt(claim.attempt),
    leaseDurationMs: fields.value(claim.leaseDurationMs),
    afterTerm: fields.term(claim.afterTerm),
    expiredVersion: fields.maybe(claim.expiredVersion, versionWith),
    metadata: claim.metadata,
    writeId: fields.maybe(claim.writeId, writeIdWith),
  } satisfies { [K in keyof AcquireClaim]-?: unknown } as AcquireClaim
}

/** Passes every field of a renewal or a release through `fields`. */
export function heldWith<C extends Claim>(fields: FieldVisitor, given: C): C {
  const claim = given as HeldClaim
  return {
    election: claim.election,
    holder: fields.value(claim.holder),
    attempt: fields.attempt(claim.attempt),
    term: fields.term(claim.term),
    version: fields.version(claim.version),
    leaseDurationMs: fields.value(claim.leaseDurationMs),
    checkpoint: fields.maybe(claim.checkpoint, valueWith),
    successor: fields.maybe(claim.successor, valueWith),
    writeId: fields.maybe(claim.writeId, writeIdWith),
  } satisfies { [K in keyof HeldClaim]-?: unknown } as HeldClaim as C
}

function replyWith(fields: FieldVisitor, reply: ModelReply): ModelReply {
  return {
    outcome: fields.maybe(reply.outcome, outcomeWith),
    record: fields.maybe(reply.record, recordWith),
    failed: fields.maybe(reply.failed, valueWith),
  }
}

function outcomeWith(fields: FieldVisitor, given: Outcome): Outcome {
  const outcome = given as OneOf<Granted, Refused>
  return {
    ok: fields.value(outcome.ok),
    record: fields.maybe(outcome.record, recordWith),
    validForMs: fields.maybe(outcome.validForMs, valueWith),
    highestTerm: fields.maybe(outcome.highestTerm, termWith),
    retryAfterMs: fields.maybe(outcome.retryAfterMs, valueWith),
  } satisfies { [K in keyof OneOf<Granted, Refused>]-?: unknown } as Outcome
}

type OneOf<A, B> = { readonly [K in keyof A & keyof B]: A[K] | B[K] } & Partial<Omit<A, keyof B> & Omit<B, keyof A>>

function callWith(fields: FieldVisitor, id: number): number {
  return fields.call(id)
}

function termWith(fields: FieldVisitor, term: number): number {
  return fields.term(term)
}

function versionWith(fields: FieldVisitor, name: string): string {
  return fields.version(name)
}
