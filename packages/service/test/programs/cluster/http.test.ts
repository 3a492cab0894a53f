import { describeOnReplicas } from '../../cluster/describe-on-replicas.ts'

describeOnReplicas(
  {
    routes: () => import('../../processes/http/routes.test.ts'),
    'the examples of the document': () => import('../../processes/http/document.test.ts'),
  },
  { withChange: true },
)
