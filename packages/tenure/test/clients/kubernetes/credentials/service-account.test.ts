import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { inCluster, serviceAccount } from '../../../../src/clients/kubernetes/credentials/service-account.ts'
import { makeCertificate } from '../../../kubernetes/certificate.ts'
import { answerOf, clientFor, serve } from '../tls-server.ts'
import { Mount } from './account-mount.ts'

const { signal } = new AbortController()

test('a replaced certificate authority is used from the next call on', async () => {
  const [first, second] = [makeCertificate(), makeCertificate()]
  const server = await serve(({ socket }) => socket.write(answerOf({})), { certificate: second })
  const mount = new Mount({ token: 'some', 'ca.crt': first.cert })
  const client = clientFor(serviceAccount(server.url, mount.folder))
  const call = () => client.request({ method: 'GET', path: '/a', signal })
  await expect(call()).rejects.toThrow(/certificate/)
  // While certificate authorities are rotated, a cluster publishes both.
  mount.replace({ token: 'some', 'ca.crt': first.cert + second.cert })
  expect((await call()).status).toBe(200)
})

test.each(['token', 'ca.crt'])('a call without the file %s names the file and what to check', async (name) => {
  const contents = { token: 'some', 'ca.crt': makeCertificate().cert }
  for (const broken of [undefined, '', '\n']) {
    const mount = new Mount(contents)
    const files = Object.entries({ ...contents, [name]: broken }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    )
    mount.replace(Object.fromEntries(files))
    const client = clientFor(serviceAccount('https://127.0.0.1:1', mount.folder))
    const asked = client.request({ method: 'GET', path: '/a', signal })
    await expect(asked).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: `The service account's file ${join(mount.folder, name)} cannot be read. Check whether the pod sets automountServiceAccountToken: false.`,
    })
  }
})

describe('inCluster()', () => {
  afterEach(() => vi.unstubAllEnvs())
  const inPod = (host: string | undefined, port?: string) => {
    vi.stubEnv('KUBERNETES_SERVICE_HOST', host)
    vi.stubEnv('KUBERNETES_SERVICE_PORT', port)
    return inCluster()
  }

  test.each([undefined, ''])('inCluster outside a pod says what is missing and what to use instead', (host) => {
    expect(() => inPod(host)).toThrow(
      expect.objectContaining({
        code: 'BACKEND_UNAVAILABLE',
        message: expect.stringMatching(
          /KUBERNETES_SERVICE_HOST is not set.*fromKubeConfig\(\).*@kubernetes\/client-node/,
        ) as string,
      }) as Error,
    )
  })

  test.each([
    ['10.0.0.1', '443', 'https://10.0.0.1:443'],
    ['10.0.0.1', undefined, 'https://10.0.0.1:443'],
    ['10.0.0.1', '', 'https://10.0.0.1:443'],
    ['fd00:10:96::1', '6443', 'https://[fd00:10:96::1]:6443'],
    ['kubernetes.default.svc', '443', 'https://kubernetes.default.svc:443'],
  ])('inCluster with host %s and port %s uses %s', (host, port, server) => {
    expect(inPod(host, port).server).toBe(server)
  })

  test('inCluster returns one client per server, so that callers share connections', () => {
    expect(inPod('10.0.0.1', '443')).toBe(inPod('10.0.0.1', '443'))
    expect(inPod('10.0.0.2', '443')).not.toBe(inPod('10.0.0.1', '443'))
  })
})
