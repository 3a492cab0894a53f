import { describeOnReplicas } from '../../cluster/describe-on-replicas.ts'

describeOnReplicas({
  limits: () => import('../../processes/http/limits.test.ts'),
  paths: () => import('../../processes/http/app.test.ts'),
  heads: () => import('../../http/head.test.ts'),
  bodies: () => import('../../http/bodies.test.ts'),
})
