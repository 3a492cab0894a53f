import { systemClock, type Clock } from '../clock.ts'
import { TenureError } from '../errors.ts'
import type { CallOptions, HeldClaim, LeaseRecord, LeaseStore, Outcome } from '../lease-store.ts'
import { checkClock, checkMethods, checkObject } from '../options.ts'
import { decodeRecord, encodeRecord } from './record.ts'
import { granted, judgeAcquire, judgeRelease, judgeRenew, type Current, type Draft, type Verdict } from './rules.ts'

/** A value and the backend's own version of it, which must differ after every write. */
export interface VersionedValue {
  readonly value: string
  readonly version: string
}

/** What `casStore` needs of a backend: a linearizable read and a conditional write of one text per election. */
export interface CompareAndSwap {
  /** The newest value, never one from a cache or a lagging replica. */
  get(election: string, options: CallOptions): Promise<VersionedValue | undefined>
  /**
   * Writes only if the version is still `version` (undefined: only if there is no value). Gives the new version, or
   * undefined if the condition did not hold. When the outcome is not known for sure, it must throw.
   */
  putIfVersion(
    election: string,
    value: string,
    version: string | undefined,
    options: CallOptions,
  ): Promise<string | undefined>
  watch?(election: string, options: CallOptions): AsyncIterable<VersionedValue | undefined>
  close?(): Promise<void>
}

/**
 * Makes a lease store of anything that can compare and swap. Expiry is observed by the candidates.
 *
 * @example
 * const store = casStore({
 *   get: (election) => bucket.read(election),
 *   putIfVersion: (election, value, version) => bucket.writeIf(election, value, version),
 * })
 */
export function casStore(backend: CompareAndSwap, options: { clock?: Clock } = {}): LeaseStore {
  checkMethods('backend', backend, ['get', 'putIfVersion'], 'a compare-and-swap backend')
  checkObject('options', options)
  checkClock(options.clock)
  const { clock = systemClock } = options

  const read = async (election: string, call: CallOptions) => decode(election, await backend.get(election, call))

  const apply = async (
    claim: { election: string; leaseDurationMs: number },
    call: CallOptions,
    judge: (current: Current) => Verdict,
  ): Promise<Outcome> => {
    const record = await read(claim.election, call)
    const verdict = judge({ record, highestTerm: record?.term ?? 0, remainingMs: undefined })
    if ('answer' in verdict) return verdict.answer
    const version = writtenVersion(
      await backend.putIfVersion(claim.election, encodeRecord(verdict.write), record?.version, call),
    )
    if (version !== undefined) return granted({ ...verdict.write, version }, claim)
    // Somebody wrote in between, and that is judged instead: it may be this very attempt, by an earlier call.
    const winner = await read(claim.election, call)
    const highestTerm = winner?.term ?? 0
    const second = judge({ record: winner, highestTerm, remainingMs: undefined })
    return 'answer' in second ? second.answer : { ok: false, ...(winner && { record: winner }), highestTerm }
  }

  return {
    expiry: 'observed',
    terms: true,
    read,
    acquire: (claim, call) => apply(claim, call, (current) => judgeAcquire(current, claim, clock.wallMs())),
    renew: (claim, call) => apply(claim, call, (current) => judgeRenew(current, claim, clock.wallMs())),
    release: (claim: HeldClaim, call) => apply(claim, call, (current) => judgeRelease(current, claim)),
    ...(backend.watch && {
      async *watch(election: string, call: CallOptions) {
        for await (const found of backend.watch?.(election, call) ?? []) yield decode(election, found)
      },
    }),
    ...(backend.close && { close: async () => backend.close?.() }),
  }
}

/** Only a text is a version. Many clients say null for nothing, and nothing must never look like a grant. */
function writtenVersion(answer: unknown): string | undefined {
  if (typeof answer === 'string') return answer
  if (answer === undefined || answer === null) return undefined
  throw new TenureError(
    'RECORD_INVALID',
    `putIfVersion gave a ${typeof answer}; it must give the new version as a text, or undefined if the condition did not hold.`,
  )
}

function decode(election: string, found: VersionedValue | null | undefined): LeaseRecord | undefined {
  if (found === undefined || found === null) return undefined
  if (typeof found.value !== 'string' || typeof found.version !== 'string') {
    throw invalidRecord(election, `get gave a ${typeof found} that is not { value, version } with two texts`)
  }
  let draft: Draft
  try {
    draft = decodeRecord(found.value)
  } catch (cause) {
    throw invalidRecord(election, cause instanceof Error ? cause.message : String(cause), cause)
  }
  if (draft.election === election) return { ...draft, version: found.version }
  throw invalidRecord(election, `it belongs to "${draft.election}", so two elections share one key`)
}

function invalidRecord(election: string, what: string, cause?: unknown): TenureError {
  const text = `The record of election "${election}" cannot be used: ${what}. Nobody leads it here until that is mended.`
  return new TenureError('RECORD_INVALID', text, { cause })
}
