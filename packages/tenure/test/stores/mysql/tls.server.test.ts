import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { mariadb, mariadbWith } from '../../../../../test/servers/mariadb.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { openStore } from '../../../src/stores/index.ts'
import { makeCertificate } from '../../kubernetes/certificate.ts'
import { call, claimOf, granted } from './scene.ts'

describeWithPrograms([mariadb.program], 'mysqlStore over TLS', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-mysql-tls-'))
  const at = (name: string) => join(folder, name)
  const [ca, key, otherCa] = [at('ca'), at('key'), at('other')]
  const own = makeCertificate({ names: ['localhost'] })
  const other = makeCertificate({ names: ['localhost'] })
  const elsewhere = makeCertificate({ names: ['db.example.com'] })
  let server: RunningServer
  const present = ({ cert, key: secret }: typeof own) => {
    writeFileSync(at('server-cert'), cert)
    writeFileSync(at('server-key'), secret)
  }
  beforeAll(async () => {
    writeFileSync(ca, own.cert)
    writeFileSync(key, own.key)
    writeFileSync(otherCa, other.cert)
    present(own)
    const user = mariadb.user?.()
    if (user) for (const path of ['', 'ca', 'server-cert', 'server-key'].map(at)) chownSync(path, user.uid, user.gid)
    server = await start(
      mariadbWith({
        'ssl-cert': at('server-cert'),
        'ssl-key': at('server-key'),
        'ssl-ca': ca,
      }),
    )
    await run('create user encrypted require ssl', 'create user known require x509')
    await run('grant all on tenure.* to encrypted', 'grant all on tenure.* to known')
  })
  afterAll(async () => {
    await server.stop()
    rmSync(folder, { recursive: true })
  })
  const run = async (...statements: string[]) => {
    const admin = await createConnection({ uri: server.url })
    for (const statement of statements) await admin.query(statement)
    await admin.end()
  }
  const open = async (query: string, environment = {}, user = 'encrypted', host = 'localhost') => {
    const store = await openStore(`mysql://${user}@${host}:${server.port}/tenure${query}`, { environment })
    onTestFinished(() => store.close?.())
    return store
  }
  const read = async (...given: Parameters<typeof open>) => (await open(...given)).read('payments', call)
  const denied = { code: 'UNAUTHORIZED', retryable: false }
  const unverified = (reason: string) => {
    return { code: 'BACKEND_UNAVAILABLE', retryable: true, message: expect.stringContaining(reason) }
  }

  test('the store encrypts its connections with REQUIRED, and by default only with a CA file', async () => {
    const store = await open('?ssl-mode=REQUIRED')
    granted(await store.acquire(claimOf({ election: 'encrypted' }), call))
    // Neither verifies the server.
    expect(await read('?ssl-mode=required', { TENURE_CA_FILE: otherCa })).toBeUndefined()
    expect(await read('', { TENURE_CA_FILE: ca })).toBeUndefined()
    await expect(read('')).rejects.toMatchObject(denied)
    await expect(read('?ssl-mode=DISABLED', { TENURE_CA_FILE: ca })).rejects.toMatchObject(denied)
    expect(await read('?ssl-mode=DISABLED', {}, 'root')).toBeUndefined()
  })

  test.each(['VERIFY_CA', 'VERIFY_IDENTITY'])('the store trusts only the configured CA with %s', async (mode) => {
    expect(await read(`?ssl-mode=${mode}`, { TENURE_CA_FILE: ca })).toBeUndefined()
    const wrong = unverified('self-signed certificate')
    await expect(read(`?ssl-mode=${mode}`, { TENURE_CA_FILE: otherCa })).rejects.toMatchObject(wrong)
    await expect(read(`?ssl-mode=${mode}`)).rejects.toMatchObject(wrong)
    const missing = unverified('cannot be read')
    await expect(read(`?ssl-mode=${mode}`, { TENURE_CA_FILE: at('none') })).rejects.toMatchObject(missing)
  })

  test('the store presents its certificate', async () => {
    const files = { TENURE_CA_FILE: ca, TENURE_CERT_FILE: ca, TENURE_KEY_FILE: key }
    expect(await read('?ssl-mode=VERIFY_CA', files, 'known')).toBeUndefined()
    await expect(read('?ssl-mode=VERIFY_CA', { TENURE_CA_FILE: ca }, 'known')).rejects.toMatchObject(denied)
  })

  test('the store compares the name in the certificate only with VERIFY_IDENTITY', async () => {
    present(elsewhere)
    await run('flush ssl')
    onTestFinished(async () => {
      present(own)
      await run('flush ssl')
    })
    writeFileSync(at('elsewhere'), elsewhere.cert)
    const environment = { TENURE_CA_FILE: at('elsewhere') }
    expect(await read('?ssl-mode=VERIFY_CA', environment)).toBeUndefined()
    expect(await read('?ssl-mode=VERIFY_CA', environment, 'encrypted', '127.0.0.1')).toBeUndefined()
    for (const query of ['', '?ssl-mode=VERIFY_IDENTITY']) {
      await expect(read(query, environment)).rejects.toMatchObject(unverified('does not match'))
    }
  })

  test.each(['127.0.0.1', '[::1]'])(
    'VERIFY_IDENTITY at %s does not accept a certificate for localhost',
    async (host) => {
      for (const query of ['', '?ssl-mode=VERIFY_IDENTITY']) {
        await expect(read(query, { TENURE_CA_FILE: ca }, 'encrypted', host)).rejects.toMatchObject({
          code: 'INVALID_OPTION',
          message: expect.stringMatching(/^Option "ssl-mode" is "VERIFY_IDENTITY", but it needs a host name/),
        })
      }
    },
  )
})
