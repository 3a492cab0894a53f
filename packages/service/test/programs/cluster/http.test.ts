import { describeOnReplicas } from '../../cluster/describe-on-replicas.ts'

describeOnReplicas(
  {
    routes: () => import('../../processes/http/routes.test.ts'),
    'documented examples': () => import('../../processes/http/document.test.ts'),
  },
  { withChange: true },
)
