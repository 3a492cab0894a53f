import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../../../test/servers/free-port.ts'
import { postgres } from '../../../../test/servers/postgres.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { startService } from '../../src/index.ts'
import { createTokenKey, signToken } from '../../src/internal.ts'
import { ask } from '../auth/service.ts'
import { newTable } from '../storage/postgres-storage-fixture.ts'

describeWith(postgres, 'replicas on PostgreSQL', (server) => {
  test('a token that one replica revokes is refused by all, and by those that start later', async () => {
    const { privateKey, publicKey } = await createTokenKey()
    const folder = mkdtempSync(join(tmpdir(), 'tenure-revoked-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const tokenKeyFile = join(folder, 'tenure.key.pub')
    writeFileSync(tokenKeyFile, publicKey)
    const store = `${server().url}?table=${newTable()}`
    const begin = async () => {
      const advertise = `http://127.0.0.1:${await freePort()}`
      const service = await startService({ store, advertise, port: 0, authentication: { tokenKeyFile } })
      onTestFinished(() => service.close())
      return service.url
    }
    const urls = [await begin(), await begin()]
    const admin = await signToken(privateKey, { node: 'me', admin: true })
    const node = await signToken(privateKey, { node: 'node-1', groups: ['*'] })
    const statusAt = async (url: string) => (await ask(url, node.token, 'GET', '/v1/groups/payments/leader')).status
    // Calls while no replica is active yet are refused with a time to retry.
    for (const url of urls) await expect.poll(() => statusAt(url), { timeout: 20_000 }).toBe(200)
    const body = { token_id: node.id }
    expect((await ask(urls[1] ?? '', admin.token, 'POST', '/v1/tokens/revoke', body)).status).toBe(200)
    expect(await Promise.all(urls.map(statusAt))).toEqual([401, 401])
    expect(await statusAt(await begin())).toBe(401)
  })
})
