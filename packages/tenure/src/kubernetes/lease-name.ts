import { invalidOption } from '../errors.ts'
import { encodeName } from '../stores/encode-name.ts'

const label = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?'
const namespaceName = new RegExp(`^${label}$`)
const leaseName = new RegExp(`^(?=.{1,253}$)${label}(?:\\.${label})*$`)

/** The name of an election's Lease. */
export function leaseNameOf(election: string): string {
  return encodeName(election, leaseName)
}

/** Whether a name can be a Lease's as it is. */
export function isLeaseName(name: string): boolean {
  return leaseName.test(name)
}

/** A namespace as Kubernetes names them. */
export function checkNamespace(option: string, namespace: unknown): void {
  if (typeof namespace === 'string' && namespaceName.test(namespace)) return
  const rule = 'it must be the name of a namespace: a-z, 0-9 and "-", at most 63 of them'
  throw invalidOption(option, namespace, rule)
}
