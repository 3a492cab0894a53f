import { isLabel, labelRule } from '@tenure/internal/names'
import { invalidOption } from '../../common/errors.ts'
import { encodeName } from '../../store-kit/encode-name.ts'

const part = '[a-z0-9](?:[-a-z0-9]*[a-z0-9])?'
/** The names that the API server accepts. It limits the length of the whole name, not of its parts. */
const leaseName = new RegExp(`^(?=.{1,253}$)${part}(?:\\.${part})*$`)

/** The rule for names of Leases, for messages. */
export const leaseNameRule =
  'the name of a Lease may contain a-z, 0-9, "-" and ".", must have a letter or digit at each end and next to each ".", and has at most 253 characters'

/** The name of an election's Lease. */
export function leaseNameOf(election: string): string {
  return encodeName(election, leaseName)
}

/**
 * Throws if a Lease cannot have this name. The store would hash the name, and other programs would not find the Lease.
 */
export function checkLeaseName(option: string, name: string): void {
  if (leaseNameOf(name) === name) return
  const reserved = 'names of this form are reserved for elections whose own name is not a valid Lease name'
  throw invalidOption(option, name, leaseName.test(name) ? reserved : leaseNameRule)
}

/** Throws if the value is not a valid namespace name. */
export function checkNamespace(option: string, namespace: unknown): void {
  if (isLabel(namespace)) return
  throw invalidOption(option, namespace, `it must be the name of a namespace: ${labelRule}`)
}
