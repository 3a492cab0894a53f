import { describeOnReplicas } from './describe-on-replicas.ts'

describeOnReplicas({
  limits: () => import('../http/limits.process.test.ts'),
  paths: () => import('../http/app.process.test.ts'),
  heads: () => import('../http/head.test.ts'),
  bodies: () => import('../http/bodies.test.ts'),
})
