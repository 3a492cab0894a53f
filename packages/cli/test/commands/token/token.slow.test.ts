import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { program, run, serve, temporaryFolder } from '../../tenure.ts'

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

/** Creates a folder with a key, and returns a function that signs with it. */
async function withKey() {
  const folder = temporaryFolder()
  const made = await run(['token', 'key', '--out', 'tenure.key'], { cwd: folder })
  expect(made).toMatchObject({ code: 0, error: '' })
  const sign = (...args: string[]) => run(['token', 'sign', '--key', 'tenure.key', ...args], { cwd: folder })
  return { folder, sign, path: (name: string) => join(folder, name) }
}

describe('what tenure token writes', () => {
  test('secrets of tenure token are readable by their owner only, whatever the umask', async () => {
    const folder = temporaryFolder()
    const script = ['umask 0', '"$@" token key --out tenure.key', 'umask 277', '"$@" token key --out other.key'].join(
      '\n',
    )
    const shell = spawn('sh', ['-e', '-c', script, 'sh', process.execPath, program], { cwd: folder })
    expect(await once(shell, 'close')).toEqual([0, null])
    const modes = ['tenure.key', 'tenure.key.pub', 'other.key', 'other.key.pub'].map((name) =>
      modeOf(join(folder, name)),
    )
    expect(modes).toEqual(['600', '644', '600', '644'])
  })

  test('tenure token never prints a secret, but prints the id of a token', async () => {
    const { sign, path } = await withKey()
    const signed = await sign('--node', 'm-2', '--groups', 'my-job', '--out', 'm-2.token')
    const token = readFileSync(path('m-2.token'), 'utf8').trim()
    const [, claims = ''] = token.split('.')
    const { jti, exp } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { jti: string; exp: number }
    const until = new Date(exp * 1000).toISOString()
    const out = `${path('m-2.token')} is for m-2, until ${until}. Its id is ${jti}\n`
    expect(signed).toEqual({ code: 0, out, error: '' })
    expect(modeOf(path('m-2.token'))).toBe('600')
    const asJson = await sign('--node', 'm-3', '--admin', '--lifetime', '12h', '--out', 'm-3.token', '--json')
    expect(JSON.parse(asJson.out)).toMatchObject({ node: 'm-3', file: path('m-3.token') })
    expect(asJson.out).not.toContain(readFileSync(path('m-3.token'), 'utf8').trim())
  })

  test('tenure token replaces no file, follows no link, and leaves no file behind when the second write fails', async () => {
    const folder = temporaryFolder()
    const make = (out: string) => run(['token', 'key', '--out', out], { cwd: folder })
    writeFileSync(join(folder, 'mine'), 'mine')
    symlinkSync(join(folder, 'elsewhere'), join(folder, 'link'))
    writeFileSync(join(folder, 'half.pub'), 'mine')
    for (const name of ['mine', 'link', 'half']) {
      const { code, error } = await make(name)
      expect(code).toBe(1)
      expect(error).toMatch(/^tenure: .* already exists and is never overwritten/)
    }
    expect(readFileSync(join(folder, 'mine'), 'utf8')).toBe('mine')
    expect(lstatSync(join(folder, 'link')).isSymbolicLink()).toBe(true)
    expect([existsSync(join(folder, 'elsewhere')), existsSync(join(folder, 'half'))]).toEqual([false, false])
    expect(readFileSync(join(folder, 'half.pub'), 'utf8')).toBe('mine')
    mkdirSync(join(folder, 'folder'))
    expect((await make('folder')).code).toBe(1)
  })
})

describe('tenure token sign', () => {
  test('tenure token sign refuses a key that others can read or write, and says what to do', async () => {
    const { sign, path } = await withKey()
    for (const mode of [0o640, 0o604, 0o620]) {
      chmodSync(path('tenure.key'), mode)
      const { code, error } = await sign('--node', 'm', '--admin', '--out', 'm.token')
      expect(code).toBe(1)
      expect(error).toContain(`chmod 600 ${path('tenure.key')}`)
      expect(existsSync(path('m.token'))).toBe(false)
    }
  })

  test('tenure token sign reports all missing options at once', async () => {
    const { code, error } = await run(['token', 'sign', '--admin'])
    expect({ code, error }).toEqual({
      code: 2,
      error: 'tenure: --key is missing.\ntenure: --node is missing.\ntenure: --out is missing.\n',
    })
  })

  test.each([
    [['--node', 'm'], '--groups must name a group'],
    [['--node', 'm', '--groups', 'a b'], '--groups: groups must be'],
    [['--node', 'm', '--admin', '--lifetime', '367d'], '--lifetime must be from 1m to 366d'],
    [['--node', 'm', '--admin', '--lifetime', '30s'], '--lifetime must be from 1m to 366d'],
  ])('tenure token sign rejects %j', async (args, message) => {
    const { sign, path } = await withKey()
    const { code, error } = await sign(...args, '--out', 'm.token')
    expect({ code, error }).toMatchObject({ code: 2, error: expect.stringContaining(message) })
    expect(existsSync(path('m.token'))).toBe(false)
  })

  test('tenure token sign does not print a key or a token that was given instead of a file name', async () => {
    const { folder, path, sign } = await withKey()
    await sign('--node', 'm', '--admin', '--out', 'm.token')
    const key = readFileSync(path('tenure.key'), 'utf8')
    const token = readFileSync(path('m.token'), 'utf8').trim()
    const args = ['token', 'sign', '--node', 'm', '--admin', '--out', 'n.token']
    for (const env of [{ TENURE_KEY: key }, { TENURE_KEY: token }]) {
      const { code, error } = await run(args, { cwd: folder, env })
      expect({ code, error }).toEqual({
        code: 2,
        error: 'tenure: TENURE_KEY must be a readable file, not a value that looks like a secret.\n',
      })
    }
  })
})

test('tenure token show prints the node of a token, but nothing that would let anyone use it', async () => {
  const { folder, sign, path } = await withKey()
  const signed = await sign('--node', 'm-2', '--groups', 'a,b-*', '--reader', '--out', 'm-2.token', '--json')
  const { id, expires_at_ms } = JSON.parse(signed.out) as { id: string; expires_at_ms: number }
  const shown = await run(['token', 'show', 'm-2.token'], { cwd: folder })
  const until = new Date(expires_at_ms).toISOString()
  const text = `m-2.token is for m-2, until ${until}: reader, elections a, b-*. Its id is ${id}\n`
  expect(shown).toEqual({ code: 0, out: text, error: '' })
  const json = await run(['token', 'show', 'm-2.token', '--json'], { cwd: folder })
  expect(JSON.parse(json.out)).toEqual({ id, node: 'm-2', expires_at_ms, groups: ['a', 'b-*'], reader: true })
  const secret = readFileSync(path('m-2.token'), 'utf8').trim().split('.')
  for (const part of secret) expect(shown.out + json.out).not.toContain(part)
  expect(await run(['token', 'show', 'tenure.key'], { cwd: folder })).toMatchObject({ code: 2, out: '' })
  expect(await run(['token', 'show', 'nothing'], { cwd: folder })).toMatchObject({ code: 69, out: '' })
})

test("a machine with a token and the service's certificate takes part over TLS, and no other machine does", async () => {
  const { folder, sign, path } = await withKey()
  expect((await run(['cert', '--host', '127.0.0.1', '--out', '.'], { cwd: folder })).code).toBe(0)
  await sign('--node', 'm-2', '--groups', 'my-job', '--out', 'm-2.token')
  const files = ['--tls-cert', 'service.pem', '--tls-key', 'service.key', '--token-key', 'tenure.key.pub']
  const { url, output } = await serve(join(folder, 'data'), files, { cwd: folder })
  expect(url).toMatch(/^https:/)
  const campaign = (...args: string[]) =>
    run(['campaign', 'my-job', '--url', url, '--identity', 'm-2', ...args], { cwd: folder })
  const token = ['--token-file', 'm-2.token']
  const trust = ['--ca-file', 'service.pem']
  expect(await campaign(...trust, ...token)).toMatchObject({ code: 0, out: expect.stringContaining('m-2 leads') })
  expect((await campaign(...trust)).error).toContain('401')
  expect((await campaign(...token)).error).toMatch(/certificate/)
  // Another service at the same address has another certificate.
  await run(['cert', '--host', '127.0.0.1', '--out', 'other'], { cwd: folder })
  expect((await campaign('--ca-file', 'other/service.pem', ...token)).error).toMatch(/certificate/)

  const { out } = await sign('--node', 'me', '--admin', '--out', 'admin.token', '--json')
  const { id: adminId } = JSON.parse(out) as { id: string }
  const [, claims = ''] = readFileSync(path('m-2.token'), 'utf8').split('.')
  const { jti } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { jti: string }
  const revoke = (id: string, ...args: string[]) =>
    run(['token', 'revoke', id, '--url', url, ...trust, ...args], { cwd: folder })
  expect((await revoke(adminId, ...token)).error).toContain('403')
  const done = { code: 0, out: `The token ${jti} is revoked on every replica.\n`, error: '' }
  expect(await revoke(jti, '--token-file', 'admin.token')).toEqual(done)
  expect((await campaign(...trust, ...token)).error).toContain('The credential has been revoked.')
  const secret = readFileSync(path('m-2.token'), 'utf8').trim()
  // The token itself instead of its id.
  const mistaken = await revoke(secret, '--token-file', 'admin.token')
  expect(mistaken).toMatchObject({ code: 2, error: expect.stringContaining('not a value that looks like a secret') })
  expect(output.error).not.toContain(secret.split('.')[2])
})

test('a command takes part as the node of its token unless --identity is set', async () => {
  const { folder, sign, path } = await withKey()
  expect((await run(['cert', '--host', '127.0.0.1', '--out', '.'], { cwd: folder })).code).toBe(0)
  await sign('--node', 'm-2', '--groups', 'my-job', '--out', 'm-2.token')
  const files = ['--tls-cert', 'service.pem', '--tls-key', 'service.key', '--token-key', 'tenure.key.pub']
  const { url } = await serve(join(folder, 'data'), files, { cwd: folder })
  const ask = (args: string[], env: Record<string, string> = {}) =>
    run([...args, '--url', url, '--ca-file', 'service.pem'], { cwd: folder, env })
  const byFile = ['--token-file', 'm-2.token']
  const byVariable = { TENURE_TOKEN: readFileSync(path('m-2.token'), 'utf8').trim() }
  const leads = { code: 0, out: expect.stringContaining('m-2 leads my-job') }
  const resigned = { code: 0, out: expect.stringContaining('m-2 no longer leads my-job') }
  expect(await ask(['campaign', 'my-job', ...byFile])).toMatchObject(leads)
  expect(await ask(['resign', 'my-job'], byVariable)).toMatchObject(resigned)
  const other = await ask(['campaign', 'my-job', '--identity', 'm-3', ...byFile])
  expect(other).toMatchObject({ code: 69, error: expect.stringContaining('403') })
  const store = ['--store', url, '--ca-file', 'service.pem', ...byFile]
  const command = ['--', 'sh', '-c', 'echo "as $TENURE_IDENTITY"']
  const ran = await run(['run', 'my-job', ...store, '--once', ...command], { cwd: folder })
  expect(ran).toMatchObject({ code: 0, out: 'as m-2\n' })
})
