import { isLabel, labelRule } from '@tenure/internal/names'
import { invalidOption } from '../../errors.ts'
import { encodeName } from '../../stores/encode-name.ts'

const part = '[a-z0-9](?:[-a-z0-9]*[a-z0-9])?'
/** What the API server accepts: it limits the length of the whole name, not of its parts. */
const leaseName = new RegExp(`^(?=.{1,253}$)${part}(?:\\.${part})*$`)

/** The rule for names of Leases, in words. */
export const leaseNameRule =
  'a Lease is named with a-z, 0-9, "-" and ".", a letter or digit at each end and beside each ".", at most 253 of them'

/** The name of an election's Lease. */
export function leaseNameOf(election: string): string {
  return encodeName(election, leaseName)
}

/** Refuses a name that a Lease cannot have: it would be hashed, into a Lease that no other program looks for. */
export function checkLeaseName(option: string, name: string): void {
  if (leaseNameOf(name) === name) return
  const reserved = 'a Lease of such a name is kept for an election whose own name no Lease can have'
  throw invalidOption(option, name, leaseName.test(name) ? reserved : leaseNameRule)
}

/** Refuses what is not the name of a namespace. */
export function checkNamespace(option: string, namespace: unknown): void {
  if (isLabel(namespace)) return
  throw invalidOption(option, namespace, `it must be the name of a namespace: ${labelRule}`)
}
