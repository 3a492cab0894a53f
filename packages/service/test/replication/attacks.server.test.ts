import { describeOnReplicas } from './describe-on-replicas.ts'

describeOnReplicas({
  limits: () => import('../http/limits.process.test.ts'),
  paths: () => import('../http/app.process.test.ts'),
  heads: () => import('../http/request-heads.test.ts'),
  bodies: () => import('../http/request-bodies.test.ts'),
})
