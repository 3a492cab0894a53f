import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { programs } from './programs.ts'
import type { RunningServer, ServerKind } from './server.ts'

const url = (port: number) => `http://127.0.0.1:${port}`
const wallClockIn = (directory: string) => join(directory, 'wall-clock')
const settingsIn = (directory: string) => join(directory, 'consul.json')
/** The servers of a cluster listen on their own loopback address, so that their usual ports are free on it. */
const addressOf = (port: number) => `127.1.${port >> 8}.${port & 255}`

/** The token that may do everything on {@link consulWithTokens}. */
export const managementToken = '6ad7bd2c-0ee0-4f2b-9f0f-6f4a3b0b8a11'

/** Consul with one server that keeps its data on disk. Its wall clock can be set, see {@link setWallClock}. */
export const consul = consulWith()

/** Consul with ACLs. Without a token, nothing is allowed. */
export const consulWithTokens = consulWith(
  { acl: { enabled: true, default_policy: 'deny', tokens: { initial_management: managementToken } } },
  managementToken,
)

/** Consul with additional settings in its configuration file. */
export function consulWith(settings: object = {}, token?: string): ServerKind {
  return {
    name: 'Consul',
    program: programs.consul,
    prepare({ directory, port }) {
      const usual = {
        node_name: `node-${port}`,
        server: true,
        bootstrap: true,
        bind_addr: addressOf(port),
        client_addr: '127.0.0.1',
        data_dir: join(directory, 'data'),
        log_level: 'WARN',
        disable_update_check: true,
        ports: { http: port, dns: -1, grpc: -1, serf_wan: -1 },
        connect: { enabled: false },
        // A server elects itself within a second instead of ten.
        performance: { raft_multiplier: 1 },
        limits: { http_max_conns_per_client: 1_000 },
      }
      writeFileSync(settingsIn(directory), JSON.stringify({ ...usual, ...settings }))
    },
    args: ({ directory }) => ['agent', `-config-file=${settingsIn(directory)}`],
    env: ({ directory }) => ({ TENURE_WALL_CLOCK: wallClockIn(directory) }),
    // A linearizable read needs a leader.
    probe: ({ port }) => askConsul({ url: url(port), ...(token && { token }) }, 'GET', 'kv/?keys&consistent'),
    url,
    stopSignal: 'SIGKILL',
  }
}

/** An agent, and a token if it requires one. */
export interface ConsulAt {
  readonly url: string
  readonly token?: string
}

/** Sends a request to an agent, without any code of the library. */
export async function askConsul<Body>(at: ConsulAt, method: string, path: string, body?: string): Promise<Body> {
  const answer = await fetch(`${at.url}/v1/${path}`, {
    method,
    signal: AbortSignal.timeout(5_000),
    ...(body !== undefined && { body }),
    ...(at.token !== undefined && { headers: { 'x-consul-token': at.token } }),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`Consul answered ${answer.status} to ${path}: ${text}`)
  return JSON.parse(text) as Body
}

const inUrl = (key: string) => key.split('/').map(encodeURIComponent).join('/')

/** Removes a key, or all keys that begin with it, as an operator might do by hand. */
export async function removeKeys(at: ConsulAt, key: string, { all = false } = {}): Promise<void> {
  await askConsul(at, 'DELETE', `kv/${inUrl(key)}${all ? '?recurse' : ''}`)
}

export async function putKey(at: ConsulAt, key: string, value: string): Promise<void> {
  await askConsul(at, 'PUT', `kv/${inUrl(key)}`, value)
}

/** Returns the keys that begin with a text. */
export async function keysAt(at: ConsulAt, beginning: string): Promise<{ Key: string; Value: string | null }[]> {
  const keys = await askConsul<string[]>(at, 'GET', 'kv/?keys&consistent')
  const own = keys.filter((key) => key.startsWith(beginning))
  return (await Promise.all(own.map((key) => askConsul<never[]>(at, 'GET', `kv/${inUrl(key)}?consistent`)))).flat()
}

/** Creates a token whose policy has these rules. */
export async function createToken(at: ConsulAt, name: string, rules: string) {
  const policy = { Name: name, Rules: rules }
  const { ID: id } = await askConsul<{ ID: string }>(at, 'PUT', 'acl/policy', JSON.stringify(policy))
  const body = JSON.stringify({ Policies: [{ Name: name }] })
  const { SecretID: token } = await askConsul<{ SecretID: string }>(at, 'PUT', 'acl/token', body)
  const setRules = (changed: string) =>
    askConsul(at, 'PUT', `acl/policy/${id}`, JSON.stringify({ ID: id, Name: name, Rules: changed }))
  return { token, setRules }
}

/** Sets the wall clock of a server, in seconds ahead of the true time, and waits until the server shows that time. */
export async function setWallClock({ directory, url: base }: RunningServer, seconds: number): Promise<void> {
  writeFileSync(wallClockIn(directory), String(seconds))
  for (let aheadMs = Infinity; Math.abs(aheadMs - seconds * 1e3) > 60_000; await delay(20)) {
    const answer = await fetch(`${base}/v1/status/leader`)
    await answer.arrayBuffer()
    aheadMs = Date.parse(answer.headers.get('date') ?? '') - Date.now()
  }
}
