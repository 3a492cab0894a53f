import type { KubernetesClient } from './client.ts'
export function fromKubeConfig(): KubernetesClient {
  throw new Error('soon')
}
