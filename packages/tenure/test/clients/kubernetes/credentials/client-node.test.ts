import { KubeConfig } from '@kubernetes/client-node'
import { describe, expect, expectTypeOf, test } from 'vitest'
import {
  clientNodeConnection,
  clientNodePackage,
  fromClientNode,
  type KubeConfigLike,
} from '../../../../src/clients/kubernetes/credentials/client-node.ts'
import { fakeClock } from '../../../../../testing/src/index.ts'
import { config, base64, server } from './client-node-config.ts'

test.each([
  ['20.19.0', '@kubernetes/client-node@1'],
  ['22.18.9', '@kubernetes/client-node@1'],
  ['22.19.0', '@kubernetes/client-node'],
  ['24.0.0', '@kubernetes/client-node'],
])('on Node.js %s, clientNodePackage returns %s', (version, name) => {
  expect(clientNodePackage(version)).toBe(name)
})

// The type checker verifies this test.
test('fromClientNode accepts a KubeConfig from @kubernetes/client-node', () => {
  expectTypeOf<KubeConfig>().toExtend<KubeConfigLike>()
  const fits: KubeConfigLike = new KubeConfig()
  expect(fits.getCurrentCluster()).toBeNull()
})

describe('fromClientNode', () => {
  test('fromClientNode returns the same client for the same KubeConfig, so that its users share connections', () => {
    const one = config({}, {})
    expect(fromClientNode(one)).toBe(fromClientNode(one))
    expect(fromClientNode(one).server).toBe(server)
    expect(fromClientNode(config({}, {}))).not.toBe(fromClientNode(one))
  })

  test('fromClientNode refuses a KubeConfig that was not loaded', () => {
    expect(() => fromClientNode(new KubeConfig())).toThrow('Call its loadFromDefault()')
  })

  test('fromClientNode refuses anything but a KubeConfig', () => {
    for (const wrong of [undefined, null, 'config', {}, { getCurrentCluster() {} }]) {
      expect(() => Reflect.apply(fromClientNode, undefined, [wrong])).toThrow('Option "client"')
    }
  })

  test('fromClientNode refuses an unencrypted server', () => {
    expect(() => fromClientNode(config({ server: 'http://10.0.0.1' }, {}))).toThrow('https: URL')
  })
})

describe('credentials of a KubeConfig', () => {
  const credentialsOf = async (from: KubeConfigLike) => clientNodeConnection(from, server).credentials()

  test('the connection uses the token, password, certificate and TLS settings, but not the agent', async () => {
    expect(await credentialsOf(config({}, { token: 'abc' }))).toEqual({ authorization: 'Bearer abc', tls: {} })
    const password = await credentialsOf(config({}, { username: 'me', password: 'abc' }))
    expect(password.authorization).toBe(`Basic ${base64('me:abc')}`)
    const cluster = { caData: base64('ca'), skipTLSVerify: true, tlsServerName: 'name' }
    const { tls, agent } = await credentialsOf(config(cluster, { certData: base64('cert'), keyData: base64('key') }))
    expect(tls).toEqual({
      ca: Buffer.from('ca'),
      cert: Buffer.from('cert'),
      key: Buffer.from('key'),
      rejectUnauthorized: false,
      servername: 'name',
    })
    expect(agent).toBeUndefined()
  })

  test('impersonation is refused instead of ignored', async () => {
    const impersonating = config({}, { token: 'abc', impersonateUser: 'you' })
    await expect(credentialsOf(impersonating)).rejects.toThrow(
      /adds the header Impersonate-User, which is not supported here\. Impersonation is not supported: use the credentials of a user/,
    )
  })

  test('another header is refused without mentioning impersonation', async () => {
    const adding: KubeConfigLike = {
      getCurrentCluster: () => ({ server }),
      applyToHTTPSOptions: async ({ headers }) => void Object.assign(headers ?? {}, { 'x-team': 'a' }),
    }
    await expect(credentialsOf(adding)).rejects.toThrow(
      /^The KubeConfig adds the header x-team, .* Only "authorization" is sent\.$/,
    )
  })

  test('credentials are not requested once the KubeConfig points to another cluster', async () => {
    let asked = 0
    let current = server
    const moving: KubeConfigLike = {
      getCurrentCluster: () => ({ server: current }),
      applyToHTTPSOptions: async () => void asked++,
    }
    const connection = clientNodeConnection(moving, server)
    await connection.credentials()
    current = 'https://other.example'
    expect(() => connection.credentials()).toThrow(`no longer points to ${server}`)
    expect(asked).toBe(1)
    expect(fromClientNode(moving).server).toBe(current)
  })

  test('a plugin that hangs is run again after a while, up to a limit', async () => {
    const clock = fakeClock()
    const waiting: (() => void)[] = []
    const hanging: KubeConfigLike = {
      getCurrentCluster: () => ({ server }),
      applyToHTTPSOptions: () => new Promise((resolve) => waiting.push(resolve)),
    }
    const connection = clientNodeConnection(hanging, server, clock)
    const ask = () => {
      for (let i = 0; i < 10; i++) void connection.credentials()
    }
    for (const expected of [1, 2, 3, 4, 4, 4]) {
      ask()
      expect(waiting).toHaveLength(expected)
      await clock.advance(60_000)
    }
    // One run has ended, so there is room for another.
    waiting[0]?.()
    await clock.advance(1)
    ask()
    expect(waiting).toHaveLength(5)
    const answer = connection.credentials()
    waiting[4]?.()
    expect(await answer).toEqual({ tls: {} })
    ask()
    expect(waiting).toHaveLength(6)
  })
})
