import { createHash } from 'node:crypto'
import { isLabel, labelRule, longestNameBytes } from '@tenure/internal/names'
import { invalidOption } from 'tenure/internal'
import type { ResourceKey } from 'tenure/internal/multicluster'

/**
 * The election in the global store. It is derived from the namespace and the name, because the API server's permissions
 * apply to those.
 */
export function globalElectionOf({ namespace, name }: ResourceKey): string {
  const election = `${namespace}/${name}`
  if (Buffer.byteLength(election) <= longestNameBytes) return election
  return `${namespace}/sha256:${createHash('sha256').update(name).digest('hex')}`
}

/**
 * Checks the name of a namespace or a cluster. The cluster name is part of every holder, so a holder of one cluster
 * must never look like a holder of another.
 */
export function checkLabel(option: 'cluster' | 'namespace', value: unknown): asserts value is string {
  if (!isLabel(value)) throw invalidOption(option, value, `it must be a name of ${labelRule}`)
}
