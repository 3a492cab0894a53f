import { describeOnReplicas } from '../../cluster/describe-on-replicas.ts'

describeOnReplicas({
  rights: () => import('../../auth/access.test.ts'),
  tokens: () => import('../../auth/jwt.test.ts'),
  certificates: () => import('../../processes/auth/certificate.test.ts'),
  revocations: () => import('../../processes/auth/revocation.test.ts'),
})
describeOnReplicas({ 'reloaded files': () => import('../../processes/auth/reload.test.ts') }, { replaces: false })
