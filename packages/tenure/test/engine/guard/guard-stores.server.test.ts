/** Tests the guard on a Kubernetes Lease, on the service, and on S3. */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { kubeConfigOf } from '../../../../../test/kubernetes/kube-config.ts'
import { cloudEnvironment, clouds } from '../../../../../test/servers/cloud-emulators.ts'
import type { RunningServer } from '../../../../../test/servers/server.ts'
import { describeWith, describeWithCluster } from '../../../../../test/servers/suite.ts'
import { serve } from '../../../../../test/service/serve.ts'
import { fromKubeConfig } from '../../../src/clients/kubernetes/credentials/kube-config.ts'
import type { LeaseStore } from '../../../src/index.ts'
import { openStore } from '../../../src/stores/index.ts'
import { kubernetesStore } from '../../../src/stores/kubernetes/index.ts'
import { newElection, startLeader, startStandby } from './guarded-process.ts'

/** The newest renewal was at most 5 s old, so a lease of 15 s cannot expire within this time. */
const beforeExpiryMs = 9_000

const allEnds = ['SIGKILL', 'abort', 'exit', 'throw', 'out of memory']

interface Place {
  readonly url: string
  readonly env?: Record<string, string>
  /** Opens the store in this process. */
  open(): LeaseStore | Promise<LeaseStore>
}

/** Tests that do not depend on the store. Returns functions that start a leader and a standby. */
function crashes(name: string, ends: readonly string[], place: () => Place) {
  const start = async (more: { leaseDurationMs?: number } = {}) => {
    const { url, env = {}, open } = place()
    const elections = [newElection()]
    const leader = await startLeader(url, { elections, env, ...more })
    const store = await open()
    onTestFinished(() => store.close?.())
    const standby = await startStandby(store, elections[0] ?? '', more)
    return { leader: leader.child, standby }
  }

  test.each(ends)(`a standby on ${name} leads long before the lease expires when a process ends by %s`, async (end) => {
    const { leader, standby } = await start()
    const ended = once(leader, 'exit')
    if (end === 'SIGKILL') leader.kill('SIGKILL')
    else leader.send(end)
    await ended
    const endedAt = performance.now()
    await standby.waitForLeadership({ signal: AbortSignal.timeout(30_000) })
    expect(performance.now() - endedAt).toBeLessThan(beforeExpiryMs)
  })

  return start
}

describeWithCluster('the guard on a Kubernetes Lease', (cluster) => {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tenure-guard-'))
    writeFileSync(join(folder, 'config'), kubeConfigOf(cluster()))
  })
  afterAll(() => rmSync(folder, { recursive: true }))
  const start = crashes('a Kubernetes Lease', allEnds, () => {
    const { namespace } = cluster()
    const file = join(folder, 'config')
    const open = () => kubernetesStore({ client: fromKubeConfig(file), namespace })
    return { url: `kubernetes://${namespace}`, env: { KUBECONFIG: file, KUBERNETES_SERVICE_HOST: '' }, open }
  })

  test('a paused process keeps its Kubernetes Lease until it expires', async () => {
    const { leader, standby } = await start({ leaseDurationMs: 4_000 })
    leader.kill('SIGSTOP')
    const pausedAt = performance.now()
    await standby.waitForLeadership({ signal: AbortSignal.timeout(30_000) })
    // Its newest renewal was at most a third of the lease ago.
    expect(performance.now() - pausedAt).toBeGreaterThan(2_000)
  })
})

describe('the guard on the service', () => {
  let service: RunningServer
  beforeAll(async () => {
    service = await serve()
  })
  afterAll(() => service.stop())
  crashes('the service', allEnds, () => ({ url: service.url, open: () => openStore(service.url) }))
})

describeWith(clouds.S3.kind, 'the guard on S3', (server) => {
  beforeAll(() => clouds.S3.prepare(server()))
  // A standby on S3 polls, so each of these takes seconds.
  crashes('S3', ['SIGKILL', 'exit', 'out of memory'], () => {
    const url = clouds.S3.urlAt(server().port)
    return { url, env: cloudEnvironment, open: () => openStore(url, { environment: cloudEnvironment }) }
  })
})
