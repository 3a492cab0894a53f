/** Encodes the fields of a model state that concern the global store: records, calls, and answers. */
import type { AcquireClaim, HeldClaim, LeaseRecord, Outcome } from '../../../../tenure/src/engine/lease-store.ts'
import type { RelayedRecord } from '../../../../tenure/src/multicluster/protocol/resource-types.ts'
import type { ServingStep } from '../../../src/relay/spec-only-candidate.ts'
import type { GlobalCall } from '../../../../tenure/src/multicluster/protocol/request-codec.ts'
import type { Codec, Version } from './codec.ts'
import { clusterNames, election, type Answer, type Claimed } from './scene.ts'

/** Requires that every field of a type is named. */
export type All<T> = { [K in keyof T]-?: unknown }

const nothing = {}

export class StoreFields {
  readonly #records: LeaseRecord[] = []
  readonly #relayedRecords: readonly RelayedRecord[][] = clusterNames.map(() => [])
  readonly #codec: Codec

  constructor(codec: Codec) {
    this.#codec = codec
  }

  record(record: LeaseRecord): LeaseRecord {
    return this.#known(this.#records, record, () => this.#newRecord(record))
  }

  /** Encodes a record as an index if it occurred before, because most records of a model state are the same. */
  #known<T extends Version>(known: T[], wanted: T, make: () => T): T {
    const isWanted = ({ version, released }: T) => version === wanted.version && released === wanted.released
    const at = this.#codec.small(known.findIndex(isWanted) + 1)
    const found = known[at - 1]
    if (found) return found
    const made = this.#codec.intern(make())
    known.push(made)
    return made
  }

  #newRecord(record: LeaseRecord): LeaseRecord {
    const codec = this.#codec
    return {
      election,
      holder: codec.word(record.holder),
      attempt: codec.attempt(record.attempt),
      term: codec.term(record.term),
      leaseDurationMs: this.#codec.number(record.leaseDurationMs),
      released: codec.flag(record.released),
      version: codec.version(record.version),
      // These fields are for display only, or are the same in all records.
      acquiredAt: 0,
      renewedAt: 0,
      metadata: nothing,
      checkpoint: '',
      writeId: '',
      successor: undefined,
      expired: undefined,
    } satisfies All<LeaseRecord>
  }

  relayed(record: RelayedRecord, cluster: number): RelayedRecord {
    return this.#known(this.#relayedRecords[cluster] ?? [], record, () => this.#newRelayed(record))
  }

  #newRelayed(record: RelayedRecord): RelayedRecord {
    const codec = this.#codec
    return {
      holder: codec.word(record.holder),
      cluster: codec.word(record.cluster),
      attempt: codec.attempt(record.attempt),
      term: codec.term(record.term),
      leaseDurationMs: this.#codec.number(record.leaseDurationMs),
      acquiredAt: 0,
      renewedAt: 0,
      released: codec.flag(record.released),
      metadata: '{}',
      checkpoint: '',
      version: codec.version(record.version),
      writeId: '',
      successor: undefined,
    } satisfies All<RelayedRecord>
  }

  step(step: ServingStep): ServingStep {
    const codec = this.#codec
    return {
      call: this.call(step.call),
      sentAtMs: codec.moment(step.sentAtMs),
      sentAtBootMs: codec.bootMoment(step.sentAtBootMs),
      version: codec.maybe(step.version, (version) => codec.name(version)),
    } satisfies All<ServingStep>
  }

  call(call: GlobalCall): GlobalCall {
    const verb = this.#codec.word(call.verb)
    const { claim } = call as Claimed
    if (verb === 'read') return { verb }
    if (verb === 'acquire') return { verb, claim: this.#acquire(claim as AcquireClaim) }
    return { verb, claim: this.#held(claim as HeldClaim) }
  }

  #acquire(claim: AcquireClaim): AcquireClaim {
    const codec = this.#codec
    const expiredVersion = codec.maybe(claim.expiredVersion, (version) => codec.name(version))
    return {
      election,
      holder: codec.word(claim.holder),
      attempt: codec.attempt(claim.attempt),
      leaseDurationMs: this.#codec.number(claim.leaseDurationMs),
      afterTerm: codec.term(claim.afterTerm),
      ...(expiredVersion !== undefined && { expiredVersion }),
      metadata: {},
      writeId: '',
    } satisfies All<Omit<AcquireClaim, 'expiredVersion'>>
  }

  #held(claim: HeldClaim): HeldClaim {
    const codec = this.#codec
    return {
      election,
      holder: codec.word(claim.holder),
      attempt: codec.attempt(claim.attempt),
      term: codec.term(claim.term),
      version: codec.name(claim.version),
      leaseDurationMs: this.#codec.number(claim.leaseDurationMs),
      successor: undefined,
      writeId: '',
    } satisfies All<Omit<HeldClaim, 'checkpoint'>>
  }

  answer(answer: Answer): Answer {
    const codec = this.#codec
    return {
      outcome: codec.maybe(answer.outcome, (outcome) => this.#outcome(outcome)),
      found: codec.maybe(answer.found, (record) => this.record(record)),
    } satisfies All<Answer>
  }

  #outcome(outcome: Outcome): Outcome {
    const codec = this.#codec
    const ok = codec.flag(outcome.ok)
    const record = codec.maybe(outcome.record, (one) => this.record(one))
    if (ok) return { ok, record: record as LeaseRecord, validForMs: 0 }
    const { highestTerm, retryAfterMs } = outcome as Extract<Outcome, { ok: false }>
    return {
      ok,
      ...(record && { record }),
      highestTerm: codec.term(highestTerm),
      ...wait(codec.maybe(retryAfterMs, (ms) => this.#codec.number(ms))),
    }
  }
}

function wait(retryAfterMs: number | undefined) {
  return retryAfterMs === undefined ? {} : { retryAfterMs }
}
