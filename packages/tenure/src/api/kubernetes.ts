/** Leader election on Kubernetes, with the callbacks that controllers are used to. */
export { LeaderElector, type Health } from './leader-elector.ts'
export type { LeaderCallbacks, LeaderElectorOptions, LeaseElectorOptions } from './leader-elector-options.ts'
export type { ApiAnswer } from '../clients/kubernetes/api-error.ts'
export type { ApiCall, ApiWatch, KubernetesClient } from '../clients/kubernetes/client.ts'
export type { AnyClient } from '../clients/kubernetes/credentials/any-client.ts'
export type { KubeConfigLike } from '../clients/kubernetes/credentials/client-node.ts'
export { fromKubeConfig } from '../clients/kubernetes/credentials/kube-config.ts'
export { inCluster } from '../clients/kubernetes/credentials/service-account.ts'
