import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Program } from './find-program.ts'
import { programs } from './programs.ts'
import type { ServerLocation, RunningServer, ServerKind } from './server.ts'

const url = (port: number) => `http://127.0.0.1:${port}`

/** etcd with one member, in the version of Debian (3.4). */
export const etcd = memberKind('etcd', programs.etcd)

/** etcd with one member, in the newest version. Its wall clock can be set, see {@link setWallClock}. */
export const etcd36: ServerKind = {
  ...memberKind('etcd 3.6', programs.etcd36),
  env: ({ directory }) => ({ TENURE_WALL_CLOCK: wallClockIn(directory) }),
}

const wallClockIn = (directory: string) => join(directory, 'wall-clock')

/**
 * Sets the wall clock of an {@link etcd36}, in seconds ahead of the true time, and waits until the server shows that
 * time.
 */
export async function setWallClock({ directory, url: base }: RunningServer, seconds: number): Promise<void> {
  writeFileSync(wallClockIn(directory), String(seconds))
  for (let aheadMs = Infinity; Math.abs(aheadMs - seconds * 1e3) > 60_000; await delay(20)) {
    const answer = await fetch(`${base}/version`)
    await answer.arrayBuffer()
    aheadMs = Date.parse(answer.headers.get('date') ?? '') - Date.now()
  }
}

/** Returns this kind of server with additional settings. */
export function withSettings(kind: ServerKind, settings: Record<string, string>): ServerKind {
  return { ...kind, args: memberKind(kind.name, kind.program, () => settings).args }
}

/** Returns a single member that forms its own cluster, unless its settings say otherwise. */
export function memberKind(
  name: string,
  program: Program,
  settings: (place: ServerLocation) => Record<string, string> = () => ({}),
): ServerKind {
  return {
    name,
    program,
    args: (place) => {
      const { directory, port } = place
      // No other member ever connects, so any port works.
      const peers = 'http://127.0.0.1:0'
      return Object.entries({
        name: 'member',
        'data-dir': join(directory, 'data'),
        'listen-client-urls': url(port),
        'advertise-client-urls': url(port),
        'listen-peer-urls': peers,
        'initial-advertise-peer-urls': peers,
        'initial-cluster': `member=${peers}`,
        'log-level': 'warn',
        ...settings(place),
      }).map(([setting, value]) => `--${setting}=${value}`)
    },
    probe: ({ port }) => probeHealth(port),
    url,
    stopSignal: 'SIGKILL',
  }
}

/** Resolves if a member answers and has a leader. */
export async function probeHealth(port: number): Promise<void> {
  const request = get(`${url(port)}/health`, { agent: false, timeout: 1_000 })
  request.once('timeout', () => request.destroy(new Error('etcd did not answer in time')))
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  response.resume()
  if (response.statusCode !== 200) throw new Error(`etcd answered ${response.statusCode}`)
}

/** A member, and a token if it requires one. */
export interface EtcdAt {
  readonly url: string
  readonly token?: string
}

/** Sends a request to the gateway of a member, without any code of the library. */
export async function askEtcd<Body = Record<string, unknown>>(
  { url: base, token }: EtcdAt,
  path: string,
  body: unknown,
): Promise<Body> {
  const answer = await fetch(`${base}/v3/${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...(token !== undefined && { authorization: token }) },
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`etcd answered ${answer.status} to ${path}: ${text}`)
  return JSON.parse(text) as Body
}

export const base64 = (text: string) => Buffer.from(text).toString('base64')

/** Removes a key, or a range of keys, as an operator might do by hand. */
export async function removeKeys(at: EtcdAt, key: string, rangeEnd?: string): Promise<void> {
  await askEtcd(at, 'kv/deleterange', { key: base64(key), ...(rangeEnd && { range_end: base64(rangeEnd) }) })
}

export async function putKey(at: EtcdAt, key: string, value: string): Promise<void> {
  await askEtcd(at, 'kv/put', { key: base64(key), value: base64(value) })
}
