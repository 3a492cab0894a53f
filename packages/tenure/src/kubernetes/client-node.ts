import type { RequestOptions } from 'node:https'
import type { KubernetesClient } from './client.ts'
export interface KubeConfigLike {
  getCurrentCluster(): { readonly server: string } | null
  applyToHTTPSOptions(options: RequestOptions): Promise<void>
}
export function fromClientNode(_config: KubeConfigLike): KubernetesClient {
  throw new Error('soon')
}
