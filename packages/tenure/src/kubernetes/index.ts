/** Leader election on Kubernetes, with the callbacks that controllers are used to. */
export { LeaderElector, type Health } from '../styles/leader-elector.ts'
export type { LeaderCallbacks, LeaderElectorOptions, LeaseElectorOptions } from '../styles/leader-elector-options.ts'
export type { ApiAnswer } from './client/api-error.ts'
export type { ApiCall, ApiWatch, KubernetesClient } from './client/client.ts'
export type { AnyClient } from './credentials/any-client.ts'
export type { KubeConfigLike } from './credentials/client-node.ts'
export { fromKubeConfig } from './credentials/kube-config.ts'
export { inCluster } from './credentials/service-account.ts'
