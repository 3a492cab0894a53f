/** The Go module: its own tests, on real API servers with controllers, and what Go's tools say about it. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { startClusters, type Clusters } from '../../multicluster/clusters.ts'
import { clusterPrograms } from '../../servers/cluster.ts'
import { programs } from '../../servers/programs.ts'
import { describeWithPrograms } from '../../servers/suite.ts'

const folder = join(import.meta.dirname, '../../../go')
const staticcheck = 'honnef.co/go/tools/cmd/staticcheck@v0.6.1'

/** Runs Go in the module. Its output goes into the message of a failure. */
async function go(args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const run = promisify(execFile)('go', [...args], { cwd: folder, env: { ...process.env, ...env }, maxBuffer: 2 ** 26 })
  const { stdout, stderr } = await run.catch((error: Error & { stdout?: string; stderr?: string }) => {
    throw new Error(`go ${args.join(' ')}: ${error.message}\n${error.stdout}\n${error.stderr}`)
  })
  return stdout + stderr
}

// The program that is named is built with Go, so that Go is there.
describeWithPrograms([...clusterPrograms, programs.goManager, programs.cc], 'the Go module', () => {
  let clusters: Clusters

  beforeAll(async () => {
    clusters = await startClusters({ names: ['east', 'west'], controllers: 2 })
    return () => clusters.stop()
  })

  test('the Go tests of the lock pass with real API servers and the race detector', async () => {
    const kubeConfigs = clusters.members.map(({ name, kubeConfig }) => [name, kubeConfig.candidate])
    const env = { TENURE_TEST_CLUSTERS: JSON.stringify(Object.fromEntries(kubeConfigs)), CGO_ENABLED: '1' }
    const output = await go(['test', '-race', '-count=1', '-v', './...'], env)
    expect(output).toContain('--- PASS: TestLeaderElectionOfClientGoHandsOverBetweenClusters')
    expect(output).not.toContain('--- SKIP')
  }, 600_000)

  test('go vet and staticcheck find nothing in the module', async () => {
    await go(['vet', './...'])
    await go(['run', staticcheck, './...'])
  }, 600_000)
})
