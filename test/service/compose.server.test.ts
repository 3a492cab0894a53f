/** Runs everything in the compose file unchanged, except that it uses loopback addresses and other ports. */
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { pathOf } from '../servers/find-program.ts'
import { freePort } from '../servers/free-port.ts'
import { end } from '../servers/process.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { compose, composeFolder } from './service-manifests.ts'
import { command, ServiceRun } from './service-run.ts'

interface Status {
  readonly active: string | null
  readonly term: number
  readonly replicas: readonly { readonly role: string; readonly address: string }[]
}

const inside = ['2379', '2380', '7070', '7071']

describeWithPrograms([programs.etcd, programs.haproxy, programs.openssl], 'the compose file, on one machine', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-compose-'))
  const config = join(folder, 'config')
  const ports = new Map<string, number>()
  const replicas = new Map<string, ServiceRun>()
  const others: ChildProcess[] = []
  let url: string

  /** Translates a text from a container of this name to this machine. */
  const here = (name: string, text: string) =>
    text
      .replace(/0\.0\.0\.0:(\d+)$/, (_, port: string) => `127.0.0.1:${ports.get(`${name}:${port}`)}`)
      .replace(/^--listen=:(\d+)$/, (_, port: string) => `--listen=127.0.0.1:${ports.get(`${name}:${port}`)}`)
      // Certificates are for names, but etcd needs addresses.
      .replaceAll(/(tenure-\d:\d+)/g, (place) => `localhost:${ports.get(place)}`)
      .replaceAll(/(etcd-\d:\d+)/g, (place) => `127.0.0.1:${ports.get(place)}`)
      .replace('/etc/tenure', config)
      .replace('/var/lib/etcd', join(folder, name))

  const run = (name: string) => {
    const { command: args = [], environment = {} } = compose.services[name] ?? {}
    const words = args.map((arg) => here(name, arg))
    if (name.startsWith('etcd')) others.push(spawn(pathOf(programs.etcd), words.slice(1), { stdio: 'ignore' }))
    else {
      const env = Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, here(name, value)]))
      replicas.set(name, new ServiceRun([...words, '--json'], env))
    }
  }

  const operator = () => ['--ca-file', 'ca.crt', '--cert-file', 'operator.crt', '--key-file', 'operator.key']
  const tenure = async (...args: string[]) =>
    promisify(execFile)(process.execPath, [command, ...args, '--url', url, ...operator()], { cwd: config })
  const status = async () => JSON.parse((await tenure('status', '--json')).stdout) as Status

  beforeAll(async () => {
    const names = Object.keys(compose.services)
    for (const name of names) for (const port of inside) ports.set(`${name}:${port}`, await freePort())
    execFileSync(join(composeFolder, 'certificates.sh'), { cwd: folder })
    const balancer = readFileSync(join(composeFolder, 'haproxy.cfg'), 'utf8')
      .split('\n')
      .map((line) => here('balancer', line).replace('bind :7070', `bind 127.0.0.1:${ports.get('balancer:7070')}`))
    writeFileSync(join(folder, 'haproxy.cfg'), balancer.join('\n'))
    others.push(spawn(pathOf(programs.haproxy), ['-db', '-q', '-f', join(folder, 'haproxy.cfg')], { stdio: 'ignore' }))
    for (const name of names.filter((each) => each !== 'balancer')) run(name)
    url = `https://localhost:${ports.get('balancer:7070')}`
    const isWhole = async () => (await status()).replicas.length === 3
    await vi
      .waitUntil(() => isWhole().catch(() => false), { timeout: 60_000, interval: 500 })
      .catch((error: unknown) => {
        throw new Error([...replicas].map(([name, { log }]) => `${name}: ${log}`).join('\n'), { cause: error })
      })
  }, 90_000)
  afterAll(async () => {
    await Promise.all([...replicas.values()].map((replica) => replica.end('SIGTERM')))
    await Promise.all(others.map((child) => end(child, 'SIGTERM')))
    rmSync(folder, { recursive: true })
  })

  test('the compose file starts three replicas, one of which is active', async () => {
    const { replicas: shown, active } = await status()
    expect(shown.map(({ role }) => role)).toEqual(['active', 'follower', 'follower'])
    const addresses = [1, 2, 3].map((at) => `https://localhost:${ports.get(`tenure-${at}:7071`)}`)
    expect(shown.map(({ address }) => address).toSorted()).toEqual(addresses.toSorted())
    expect(active).not.toBeNull()
  })

  test(
    'a candidate leads through the load balancer of the compose file, even after the active replica was killed',
    { timeout: 60_000 },
    async () => {
      await tenure('campaign', 'jobs', '--identity', 'operator', '--ttl', '5m')
      const before = await status()
      const [active] = before.replicas
      const name = [...replicas.keys()].find((each) => active?.address.endsWith(`:${ports.get(`${each}:7071`)}`)) ?? ''
      await replicas.get(name)?.end('SIGKILL')
      const hasMoved = async () => (await status()).term > before.term
      await vi.waitUntil(() => hasMoved().catch(() => false), { timeout: 20_000, interval: 200 })
      const { stdout } = await tenure('leader', 'jobs')
      expect(stdout).toMatch(/^jobs +operator +1 /m)
      run(name)
      await expect.poll(async () => (await status()).replicas.length, { timeout: 20_000 }).toBe(3)
    },
  )
})
