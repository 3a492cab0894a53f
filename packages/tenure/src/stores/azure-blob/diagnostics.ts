import type { Finding } from '../../store-kit/diagnostics.ts'
import type { AzureContainerProperties } from './container.ts'

/** Problems with a container according to its properties. */
export function findingsOfContainer({ hasImmutabilityPolicy, hasLegalHold }: AzureContainerProperties): Finding[] {
  if (!hasImmutabilityPolicy && !hasLegalHold) return []
  const cause = hasImmutabilityPolicy ? 'an immutability policy' : 'a legal hold'
  const text = `The container has ${cause}: blobs cannot be overwritten, so leases cannot be renewed. Use a container without one.`
  return [{ risk: 'tight', text }]
}
