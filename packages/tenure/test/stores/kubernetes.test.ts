import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, test } from 'vitest'
import { describeWithCluster } from '../../../../test/servers/suite.ts'
import { storeConformance } from '../../src/conformance/index.ts'
import { KubernetesClient } from '../../src/kubernetes/client.ts'
import { serviceAccount } from '../../src/kubernetes/service-account.ts'
import { kubernetesStore, leaseNameOf } from '../../src/stores/kubernetes.ts'

const folder = mkdtempSync(join(tmpdir(), 'tenure-account-'))
afterAll(() => rmSync(folder, { recursive: true }))

describeWithCluster('kubernetesStore', (cluster) => {
  const open = () => {
    writeFileSync(join(folder, 'token'), cluster().adminToken)
    writeFileSync(join(folder, 'ca.crt'), cluster().ca)
    return kubernetesStore({
      client: new KubernetesClient(serviceAccount(cluster().url, folder)),
      namespace: 'default',
    })
  }

  describe('conforms', () => {
    const cases = storeConformance(
      () => ({
        store: open(),
        open,
        forgetsTerms: true,
        lastTerm: 2 ** 31 - 1,
        remove: async (election) => {
          await cluster().admin.request(
            'DELETE',
            `/apis/coordination.k8s.io/v1/namespaces/default/leases/${leaseNameOf(election)}`,
          )
        },
      }),
      { leaseDurationMs: 1_000 },
    )
    for (const { name, run } of cases) test(name, run)
  })
})
