/** The Go module: its own tests, on real API servers with controllers, and the checks of Go's tools. */
import { beforeAll, expect, test } from 'vitest'
import { startClusters, type Clusters } from './clusters.ts'
import { clusterPrograms } from '../servers/cluster.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { runGo } from '../go/run-go.ts'

const staticcheck = 'honnef.co/go/tools/cmd/staticcheck@v0.6.1'

describeWithPrograms([...clusterPrograms, programs.go, programs.cc], 'the Go module', () => {
  let clusters: Clusters

  beforeAll(async () => {
    clusters = await startClusters({ names: ['east', 'west'], controllers: 2 })
    return () => clusters.stop()
  })

  test('the Go tests of the lock pass with real API servers and the race detector', async () => {
    const kubeConfigs = clusters.members.map(({ name, kubeConfig }) => [name, kubeConfig.candidate])
    const env = { TENURE_TEST_CLUSTERS: JSON.stringify(Object.fromEntries(kubeConfigs)), CGO_ENABLED: '1' }
    const lock = ['./api/...', './multiclusterlease/...']
    const output = await runGo(['test', '-race', '-count=1', '-v', ...lock], env)
    expect(output).toContain('--- PASS: TestLeaderElectionOfClientGoHandsOverBetweenClusters')
    expect(output).not.toContain('--- SKIP')
  }, 600_000)

  test('go vet and staticcheck find nothing in the module', async () => {
    await runGo(['vet', './...'])
    await runGo(['run', staticcheck, './...'])
  }, 600_000)
})
