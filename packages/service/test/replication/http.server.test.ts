import { describeOnReplicas } from './describe-on-replicas.ts'

describeOnReplicas(
  {
    routes: () => import('../http/routes.process.test.ts'),
    'documented examples': () => import('../http/specified-examples.process.test.ts'),
  },
  { withChange: true },
)
