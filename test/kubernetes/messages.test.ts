import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { KubernetesClient } from '../../packages/tenure/src/kubernetes/client.ts'
import { kubernetesStore } from '../../packages/tenure/src/stores/kubernetes.ts'
import { root } from '../documents.ts'
import { describeWithCluster } from '../servers/suite.ts'

const source = join(root, 'packages/tenure/src')
/** All of the library, with every value in a message as an ellipsis, as the page has it. */
const code = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => readFileSync(join(source, file), 'utf8'))
  .join('\n')
  .replaceAll(/\$\{[^{}]*\}/g, '…')

/** What others say in our messages, and what stands there in place of a value. */
const foreign = /connect ECONNREFUSED|self-signed certificate|namespaces … not found/
const values =
  /(?<=Cannot )(?:get|create)(?= Lease)|(?<=answered )(?:GET|404)|exec|renew(?=" for)|(?<="identity" is )undefined|identity/g

const [, table = ''] = readFileSync(join(root, 'docs/kubernetes.md'), 'utf8').split('\n## Troubleshooting\n')
const messages = [...table.matchAll(/^\| `([^`]+)`/gm)].map(([, message]) => message ?? '')

test('the page on Kubernetes explains messages', () => {
  expect(messages.length).toBeGreaterThan(20)
})

test.each(messages)('it is a message of the code: %s', (message) => {
  const pieces = message
    .replace(foreign, '')
    .replaceAll(values, '…')
    .split(/…|: |(?= within )/)
    .map((piece) => piece.trim())
    .filter((piece) => piece.length > 3)
  expect(pieces).not.toEqual([])
  expect(pieces.filter((piece) => !code.includes(piece))).toEqual([])
})

describeWithCluster('what others say in a message', (cluster) => {
  /** Tries to lead, and gives what comes of it. */
  const attempt = async (change: { server?: string; token?: string; ca?: string; namespace?: string }) => {
    const { url, adminToken, ca } = cluster()
    const { server = url, token = adminToken, namespace = 'default' } = change
    const credentials = () => ({ authorization: `Bearer ${token}`, tls: { ca: change.ca ?? ca } })
    const store = kubernetesStore({ client: new KubernetesClient({ server, credentials }), namespace })
    const claim = {
      election: 'my-app',
      holder: 'a',
      attempt: 'a.1',
      leaseDurationMs: 1_000,
      afterTerm: 0,
      metadata: {},
    }
    return store.acquire(claim, { signal: AbortSignal.timeout(5_000) })
  }

  test('is as the page has it', async () => {
    await expect(attempt({ namespace: 'nowhere' })).rejects.toThrow(
      'Cannot create Lease "nowhere/my-app": the API server answered 404, namespaces "nowhere" not found',
    )
    await expect(attempt({ token: 'old' })).rejects.toThrow('the API server does not know who asks (401).')
    await expect(attempt({ ca: '' })).rejects.toThrow('cannot be reached: self-signed certificate')
    await expect(attempt({ server: 'https://127.0.0.1:1' })).rejects.toThrow('cannot be reached: connect ECONNREFUSED')
  })
})
