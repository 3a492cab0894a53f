import { describeOnReplicas } from '../../cluster/describe-on-replicas.ts'

describeOnReplicas({ watching: () => import('../../processes/watch/watch.test.ts') }, { withChange: true })
