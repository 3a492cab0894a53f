/** The command `tenure controller`, as seen by an operator. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ask, linesOf, tenure } from '../../packages/cli/test/tenure.ts'
import { kubeConfigOf } from '../kubernetes/kube-config.ts'
import { pathOf } from '../servers/find-program.ts'
import { installCrd } from '../servers/multicluster-crd.ts'
import { programs } from '../servers/programs.ts'
import { describeWithOwnCluster } from '../servers/suite.ts'

const patience = { timeout: 30_000, interval: 50 }

describeWithOwnCluster(
  'tenure controller',
  (cluster) => {
    /** Starts a controller on its own store, and a candidate for it. */
    async function begin() {
      const folder = mkdtempSync(join(tmpdir(), 'tenure-controller-'))
      onTestFinished(() => rmSync(folder, { recursive: true, maxRetries: 10, retryDelay: 100 }))
      const kubeConfig = join(folder, 'kubeconfig')
      writeFileSync(kubeConfig, kubeConfigOf(cluster()))
      const env = { KUBECONFIG: kubeConfig, KUBERNETES_SERVICE_HOST: '' }
      const store = pathToFileURL(join(folder, 'leases')).href
      const args = ['controller', '--cluster', 'east', '--store', store, '--listen', '127.0.0.1:0', '--json']
      const controller = tenure(args, { env })
      const lines = () => linesOf(controller.output.error)
      const started = await vi.waitUntil(() => lines().find(({ url }) => url !== undefined), patience)
      const url = String(started['url'])
      const campaign = (election: string) =>
        tenure(
          ['run', election, '--store', 'multicluster://default', '--identity', 'pod-1', '--', 'sh', '-c', 'sleep 60'],
          { env },
        )
      return { controller, lines, url, campaign }
    }

    test('tenure controller names the missing CRD, serves once it is installed, and ends cleanly', async () => {
      const { controller, lines, url, campaign } = await begin()
      await vi.waitUntil(
        () => lines().some(({ msg }) => String(msg).includes('deploy/multicluster/crd.yaml')),
        patience,
      )
      expect(await ask(`${url}/readyz`)).toMatchObject({ status: 503, body: { ok: false } })
      expect(await ask(`${url}/healthz`)).toMatchObject({ status: 200, body: { ok: true, ready: false } })
      await installCrd(cluster())
      await expect.poll(() => ask(`${url}/readyz`), patience).toMatchObject({ status: 200, body: { ready: true } })

      campaign('jobs')
      const elected = await vi.waitUntil(() => lines().find(({ change }) => change === 'elected'), patience)
      expect(elected).toMatchObject({ namespace: 'default', name: 'jobs', identity: 'pod-1', term: 1 })
      const events = async () => {
        const { body } = await cluster().admin.request<{ readonly items: readonly Event[] }>(
          'GET',
          '/api/v1/namespaces/default/events',
        )
        const all = body.items.map(({ reason, involvedObject: { kind, name } }) => ({ reason, kind, name }))
        // The API server writes Events of its own about its Service.
        return all.filter(({ kind }) => kind !== 'Service')
      }
      await expect.poll(events, patience).toEqual([{ reason: 'Elected', kind: 'MultiClusterLease', name: 'jobs' }])

      const text = await (await fetch(`${url}/metrics`)).text()
      execFileSync(pathOf(programs.promtool), ['check', 'metrics'], { input: text })
      expect(text).toMatch(/^tenure_controller_resources\{cluster="east"\} 1$/m)
      expect(text).toMatch(
        /^tenure_controller_call_seconds_count\{cluster="east",verb="acquire",result="granted"\} 1$/m,
      )
      expect(text).toMatch(/^tenure_controller_leadership_changes_total\{cluster="east",change="elected"\} 1$/m)

      controller.child.kill('SIGTERM')
      expect(await controller.ended).toBe(0)
    })

    test('tenure controller answers at localhost, and refuses unknown paths and methods', async () => {
      const { url } = await begin()
      const { port } = new URL(url)
      const { status } = await ask(`http://localhost:${port}/healthz`)
      expect(status).toBe(200)
      expect(await ask(`${url}/nothing`)).toMatchObject({ status: 404, body: { error: 'NOT_FOUND' } })
      expect(await ask(`${url}/metrics`, {})).toMatchObject({ status: 405 })
    })
  },
  { needs: [programs.promtool] },
)

interface Event {
  readonly reason: string
  readonly involvedObject: { readonly kind: string; readonly name: string }
}
