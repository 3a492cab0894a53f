/**
 * The resources of elections across clusters, for the controller. Internal to Tenure's own packages: it may change in any
 * release, so they depend on this exact version.
 *
 * @module
 */
export { clientOf } from '../clients/kubernetes/credentials/any-client.ts'
export {
  expiredVersionOf,
  expiresAtMs,
  leftMs,
  nothingObserved,
  observeRecord,
  versionOf,
  type ObservedLease,
  type ObservedVersion,
  type ObservedVersions,
  type Showing,
} from '../engine/observed-expiry.ts'
export { postEvent } from '../kubernetes/post-event.ts'
export { keepWatching } from '../multicluster/keep-watching.ts'
export { kubernetesResources } from '../multicluster/kubernetes-resources.ts'
export {
  answerError,
  answerFound,
  answerOutcome,
  answerPatch,
  globalRecord,
  recordPatch,
  relayedRecord,
} from '../multicluster/protocol/answer-codec.ts'
export { displayedHolderOf, globalHolderOf, isHeldIn, isIdentity } from '../multicluster/protocol/holder-names.ts'
export { validateRequest, type GlobalCall, type ValidRequest } from '../multicluster/protocol/request-codec.ts'
export {
  resourceType,
  type Condition,
  type ConditionType,
  type MultiClusterAnswer,
  type MultiClusterLease,
  type MultiClusterLeaseSpec,
  type MultiClusterLeaseStatus,
  type MultiClusterRequest,
  type Patch,
  type RelayedRecord,
  type StatusPatch,
} from '../multicluster/protocol/resource-types.ts'
export type { ResourceChange, ResourceKey, Resources, ResourceVersion } from '../multicluster/resources.ts'
