import { describeOnReplicas } from './describe-on-replicas.ts'

describeOnReplicas({ watching: () => import('../watch/watch.process.test.ts') }, { withChange: true })
