import { describeOnReplicas } from './describe-on-replicas.ts'

describeOnReplicas({
  rights: () => import('../auth/access.test.ts'),
  tokens: () => import('../auth/jwt.test.ts'),
  certificates: () => import('../auth/certificate.process.test.ts'),
  revocations: () => import('../auth/revocation.process.test.ts'),
})
describeOnReplicas({ 'reloaded files': () => import('../auth/reload.slow.test.ts') }, { replaces: false })
