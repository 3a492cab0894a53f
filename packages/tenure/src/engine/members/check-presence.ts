import { membersLimit } from '@tenure/internal/shard-assignment'
import type { OptionNames } from '../../common/check-options.ts'
import { invalidOption } from '../../common/errors.ts'
import { isName } from '@tenure/internal/names'
import { checkBoolean, copyMetadata, metadataLimitBytes } from '../check-values.ts'
import type { LeaseStore, Metadata } from '../lease-store.ts'
import { encodeOffer, type MemberOffer } from './member-record.ts'
import { defaultMaxMembers, seatName } from './seats.ts'

/** Options of the presence of a process in an election. */
export interface PresenceOptions {
  /**
   * Whether this process takes a seat among the members of the election, so that `members()` also shows it while it
   * waits. A seat is a second lease, with one renewal per third of a lease. Default: false.
   */
  readonly present?: boolean | undefined
  /**
   * The number of the rollout, such as the revision of a Deployment. A candidate that sees a present member of a higher
   * generation counts as one step of `priority` lower. Requires `present`. Default: none, so the candidate waits for
   * nobody.
   */
  readonly generation?: number | undefined
  /** How many seats the election has, from 1 to 100. The same for all its candidates. Default: 32. */
  readonly maxMembers?: number | undefined
}

/** The names of {@link PresenceOptions}. */
export const presenceNames: OptionNames<PresenceOptions> = { present: true, generation: true, maxMembers: true }

/** Checks the options of a presence. Returns what the member offers, or undefined if it should not be present. */
export function checkPresence(
  {
    present = false,
    generation,
    maxMembers = defaultMaxMembers,
    store,
  }: PresenceOptions & { readonly store: LeaseStore },
  { election, metadata }: { readonly election: string; readonly metadata: Metadata },
): MemberOffer | undefined {
  checkBoolean('present', present)
  checkMaxMembers(maxMembers)
  if (generation !== undefined && !(Number.isSafeInteger(generation) && generation >= 0)) {
    throw invalidOption('generation', generation, 'it must be an integer from 0 to 2^53 - 1: the number of the rollout')
  }
  if (!present) {
    if (generation === undefined) return undefined
    throw invalidOption(
      'generation',
      generation,
      'it requires present: true, because candidates publish their generation in their seat',
    )
  }
  if (!store.terms) {
    throw invalidOption('present', present, 'the store keeps no terms and no metadata, so it cannot keep members')
  }
  checkGroup(election, maxMembers)
  const offer: MemberOffer = { generation, maxMembers, metadata }
  try {
    copyMetadata(encodeOffer(offer))
  } catch {
    const rule = `with present: true it must be a little smaller than ${metadataLimitBytes} bytes, because the seat keeps it together with the generation`
    throw invalidOption('metadata', metadata, rule)
  }
  return offer
}

/** Throws unless this is a possible number of seats. */
export function checkMaxMembers(maxMembers: unknown): asserts maxMembers is number {
  const isValid = Number.isSafeInteger(maxMembers) && Number(maxMembers) >= 1 && Number(maxMembers) <= membersLimit
  if (!isValid) throw invalidOption('maxMembers', maxMembers, `it must be an integer from 1 to ${membersLimit}`, 1)
}

/** Throws unless the names of the group's seats are valid names of elections. */
export function checkGroup(election: string, maxMembers: number): void {
  const last = seatName(election, maxMembers - 1)
  if (isName(last)) return
  throw invalidOption(
    'election',
    election,
    `the names of its seats, such as ".member.${maxMembers - 1}", make it too long`,
  )
}
