import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ask, campaign, program, serve, temporaryFolder, tenure } from '../../tenure.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../../../../..')

test('the three curl commands that npm start prints work as they are, in this order', async () => {
  const folder = temporaryFolder()
  // Skip the build, which the tests have already done.
  const child = spawn('npm', ['start', '--ignore-scripts', '--', '--data', folder, '--listen', '127.0.0.1:0'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    // npm ends its children only by signaling the process group.
    detached: true,
  })
  onTestFinished(async () => {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGTERM')
    await once(child, 'close')
  })
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  const lines = await vi.waitUntil(
    () => {
      const found = out.split('\n').filter((line) => /^\s*curl /.test(line))
      return found.length === 3 && out.endsWith('\n') ? found : undefined
    },
    { timeout: 20_000 },
  )
  const answers: Record<string, unknown>[] = []
  for (const line of lines) {
    const { stdout } = await run('bash', ['-c', `${line} --fail-with-body --silent --show-error`])
    answers.push(JSON.parse(stdout) as Record<string, unknown>)
  }
  expect(answers).toMatchObject([
    { is_leader: true, leader: { node_id: 'me', term: 1 } },
    { leader: { node_id: 'me', term: 1 } },
    { events: [{ group_id: 'hello', leader: { node_id: 'me', term: 1 } }], cursor: expect.any(String) as string },
  ])
})

test('tenure serve prints only its welcome to standard output', async () => {
  const { output, child, ended } = await serve(temporaryFolder())
  child.kill('SIGTERM')
  await ended
  expect(output.out).toBe('')
})

test('the welcome omits the curl commands when they would not work as they are', async () => {
  const { output } = await serve(temporaryFolder(), ['--welcome', '--explicit-groups'])
  await vi.waitUntil(() => output.out.includes('\n'), { timeout: 10_000 })
  expect(output.out).toMatch(/^Tenure is serving elections on http:.*\n$/)
})

test('settings from flags, environment and file reach the service', async () => {
  const folder = temporaryFolder()
  const config = join(folder, 'tenure.json')
  writeFileSync(config, JSON.stringify({ minTtl: '2s', maxTtl: '20s', explicitGroups: true }))
  const { url } = await serve(join(folder, 'data'), ['--min-ttl', '3s'], {
    env: { TENURE_CONFIG: config, TENURE_MAX_TTL: '30s' },
  })
  expect(await campaign(url, 'jobs', 'a')).toMatchObject({ status: 404 })
  expect(await ask(`${url}/v1/groups`, { group_id: 'jobs' })).toMatchObject({
    status: 201,
    body: { group: { policy: { min_ttl_ms: 3_000, max_ttl_ms: 30_000 } } },
  })
})

test('a second tenure serve on the same data directory exits with 69 and says why', async () => {
  const folder = temporaryFolder()
  const first = await serve(folder)
  const second = tenure(['serve', '--data', folder, '--listen', '127.0.0.1:0'])
  expect(await second.ended).toBe(69)
  expect(second.output.error).toContain(`The data directory ${folder} cannot be used: it is in use by another process.`)
  expect(await campaign(first.url, 'jobs', 'a')).toMatchObject({ body: { is_leader: true } })
})

test('tenure serve exits with 69 when its address is in use, and leaves the data directory free', async () => {
  const folder = temporaryFolder()
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const { ended, output } = tenure(['serve', '--data', folder, '--listen', address])
  expect(await ended).toBe(69)
  expect(output.error).toContain(`cannot listen on ${address}: another program is listening there.`)
  await serve(folder)
})

test('tenure serve exits with 69 when it cannot create its data directory', async () => {
  const file = join(temporaryFolder(), 'file')
  writeFileSync(file, '')
  const { ended, output } = tenure(['serve', '--data', join(file, 'data'), '--listen', '127.0.0.1:0'])
  expect(await ended).toBe(69)
  expect(output.error).toMatch(/^tenure: The data directory .*file\/data cannot be used: .*ENOTDIR/)
})

test('tenure serve exits with 2 when the keys file is invalid, and the message names the flag', async () => {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'keys.json'), '{}')
  const keys = ['--jwt-keys', 'keys.json', '--jwt-issuer', 'us', '--jwt-audience', 'tenure']
  const { ended, output } = tenure(['serve', ...keys], { cwd: folder })
  expect(await ended).toBe(2)
  expect(output.error).toMatch(/^tenure: --jwt-keys: it must be a JWKS/)
})

test('tenure serve warns at its start when authentication is off', async () => {
  const { lines } = await serve(temporaryFolder())
  await vi.waitUntil(() =>
    lines().some(({ level, msg }) => level === 'warn' && /authentication is off/.test(String(msg))),
  )
})

test.each(['127.0.0.1:0', '[::1]:0', 'localhost:0'])('tenure serve listens on %s', async (address) => {
  const { url } = await serve(temporaryFolder(), ['--listen', address])
  expect(await ask(`${url}/readyz`)).toMatchObject({ status: 200 })
})

test('help takes little longer than the start of Node itself', () => {
  // CPU time, which is less affected by a busy machine than wall-clock time.
  const cpuSeconds = (args: string) => {
    const times = execFileSync('sh', ['-c', `for i in 1 2 3 4 5 6; do "$NODE" ${args} >/dev/null; done; times`], {
      env: { ...process.env, NODE: process.execPath, PROGRAM: program },
      encoding: 'utf8',
    })
    const [, children = ''] = times.trim().split('\n')
    const parts = [...children.matchAll(/(\d+)m([\d.]+)s/g)]
    return parts.reduce((sum, [, minutes, seconds]) => sum + Number(minutes) * 60 + Number(seconds), 0)
  }
  expect(cpuSeconds('"$PROGRAM" --help') / cpuSeconds('-e 0')).toBeLessThan(2.2)
})

test('help is shown without loading the library or the service', async () => {
  const { ended, output } = tenure(['--help'], { env: { NODE_DEBUG: 'esm' } })
  expect(await ended).toBe(0)
  expect(output.error).toContain('/commander/')
  expect(output.error).not.toMatch(/tenure\/dist|service\/dist|fastify|croner/)
})
