import { invalidOption } from '../../../common/errors.ts'
import { isPromise } from '../../../common/check-options.ts'
import { fromClientNode, type KubeConfigLike } from './client-node.ts'
import type { KubernetesClient } from '../client.ts'

/** A client of this library, or the credentials of another client. */
export type AnyClient = KubernetesClient | KubeConfigLike

/**
 * Returns the client for an option.
 *
 * @example
 * const client = options.client === undefined ? inCluster() : clientOf(options.client)
 */
export function clientOf(given: unknown): KubernetesClient {
  if (has(given, 'request') && has(given, 'watch')) return given as KubernetesClient
  if (has(given, 'applyToHTTPSOptions') && has(given, 'getCurrentCluster'))
    return fromClientNode(given as KubeConfigLike)
  const rule = 'it must be inCluster(), fromKubeConfig() or a KubeConfig from @kubernetes/client-node'
  throw invalidOption('client', given, isPromise(given) ? `${rule}: await it first` : rule)
}

function has(value: unknown, method: string): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, method) === 'function'
}
