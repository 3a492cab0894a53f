import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Found } from '../../../../../../test/servers/find-program.ts'
import { npmPackages } from '../../../../../../test/servers/npm-packages.ts'
import { noteUntested } from '../../../../../../test/servers/report-missing.ts'
import { describeWithCluster } from '../../../../../../test/servers/suite.ts'
import { readDocument } from '../../../../../../test/documents.ts'
import { leaseNameOf } from '../../../../src/kubernetes/codec/lease-name.ts'

const folder = mkdtempSync(join(tmpdir(), 'tenure-client-node-2-'))
afterAll(() => rmSync(folder, { recursive: true }))

// Version 2 of client-node does not run on every Node version that the library supports, and cannot be installed
// next to 1.x.
const nodePackage = `node-${process.platform}-${process.arch}`
const name = 'a KubeConfig from @kubernetes/client-node 2 on Node 24'

describeWithCluster(name, (cluster) => {
  let found: Found
  beforeAll(async () => {
    found = await npmPackages('client-node-2-node-24', [`${nodePackage}@24`, '@kubernetes/client-node@2'])
    if ('missing' in found) noteUntested(name, found.missing)
  })

  // On a Node version that is too old, client-node fails with an unhelpful error, which the documentation must contain.
  test.skipIf(!process.versions.node.startsWith('20.'))(
    'client-node 2 cannot be imported on Node 20, and the documentation says what to install',
    async ({ skip }) => {
      if ('missing' in found) return skip(found.missing)
      const clientNode = join(found.path, 'node_modules', '@kubernetes', 'client-node', 'dist', 'index.js')
      const failed = promisify(execFile)(process.execPath, [clientNode], { timeout: 25_000 })
      const { stderr } = await failed.then(
        () => ({ stderr: '' }),
        (error: { stderr: string }) => error,
      )
      const [, said = ''] = /^TypeError: (.*)$/m.exec(stderr) ?? []
      const [, file = ''] = /node_modules\/(undici\/\S+\.js):\d+$/m.exec(stderr) ?? []
      expect({ said, file }, stderr).not.toMatchObject({ said: '' })
      const [row = ''] =
        readDocument('docs/how-to/kubernetes-troubleshooting.md').match(
          /^.*npm install @kubernetes\/client-node@1`, or.*$/m,
        ) ?? []
      expect(row).toContain(`| \`${said}\`, in \`${file}\` |`)
    },
  )

  test.for(['token', 'certificate'])(
    'an elector leads with a KubeConfig from client-node 2 that has a %s',
    async (login, { skip }) => {
      if ('missing' in found) {
        if (process.env['CI'] === 'true') throw new Error(found.missing)
        return skip(found.missing)
      }
      const { cert, key } = cluster().clientCertificate('somebody', ['system:masters'])
      const base64 = (text: string) => Buffer.from(text).toString('base64')
      const kubeConfig = join(folder, 'config')
      writeFileSync(
        kubeConfig,
        JSON.stringify({
          clusters: [
            { name: 'here', cluster: { server: cluster().url, 'certificate-authority-data': base64(cluster().ca) } },
          ],
          contexts: ['token', 'certificate'].map((user) => ({ name: user, context: { cluster: 'here', user } })),
          users: [
            { name: 'token', user: { token: cluster().adminToken } },
            { name: 'certificate', user: { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) } },
          ],
        }),
      )
      const election = `led-with-a-${login}`
      const modules = join(found.path, 'node_modules')
      const clientNode = join(modules, '@kubernetes', 'client-node', 'dist', 'index.js')
      const script = fileURLToPath(new URL('client-node-2.mjs', import.meta.url))
      const { stdout } = await promisify(execFile)(
        join(modules, nodePackage, 'bin', 'node'),
        [script, clientNode, kubeConfig, login, cluster().namespace, election],
        { timeout: 25_000 },
      )
      const told: unknown = JSON.parse(stdout)
      expect(told).toEqual({ node: expect.stringMatching(/^24\./), term: expect.any(Number), holder: login })
      const path = `/apis/coordination.k8s.io/v1/namespaces/${cluster().namespace}/leases/${leaseNameOf(election)}`
      expect(await cluster().admin.request('GET', path)).toMatchObject({ status: 200, body: { kind: 'Lease' } })
    },
  )
})
