/** Leader election on Kubernetes, with the callbacks that controllers are used to. */
export type { LeaderCallbacks, Health } from '../styles/leader-elector.ts'
export type { AnyClient } from './any-client.ts'
export type { ApiAnswer } from './api-error.ts'
export type { KubeConfigLike } from './client-node.ts'
export type { ApiCall, ApiWatch, KubernetesClient } from './client.ts'
export { fromKubeConfig } from './kube-config.ts'
export { LeaderElector, type LeaderElectorOptions, type LeaseElectorOptions } from './leader-elector.ts'
export { inCluster } from './service-account.ts'
