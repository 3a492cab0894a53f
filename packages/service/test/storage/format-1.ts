import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { open } from 'lmdb'

/** The metadata of a directory in versions before the head was part of every commit. */
export interface Format1 {
  readonly format?: number
  readonly restores?: number
  readonly place?: string
}

/** Writes a data directory as those versions did, without any code of the current encoding. */
export async function writeFormat1(
  directory: string,
  groups: readonly { readonly id: string; readonly record: object }[],
  known: Format1 = {},
): Promise<void> {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const path = join(directory, 'elections.mdb')
  writeFileSync(`${path}-lock`, Buffer.alloc(12_288), { mode: 0o600 })
  const root = open({ path, maxDbs: 4, encoding: 'string', overlappingSync: false, eventTurnBatching: false })
  const metas = root.openDB({ name: 'meta', encoding: 'string' })
  const kept = root.openDB({ name: 'groups', encoding: 'string' })
  const commits = () => (root.getStats() as { lastTxnId: number }).lastTxnId
  const commit = commits() + 1
  const meta = { format: 1, clusterId: 'cluster', restores: 0, ...known }
  await root.batch(() => void metas.put('meta', encode('meta', meta, commit)))
  await root.batch(() => {
    for (const { id, record } of groups) void kept.put(id, encode(id, record, commit + 1))
  })
  const noted = commits()
  await root.close()
  writeFileSync(join(directory, 'lock'), `${String(noted).padStart(16, '0')}\n`, { mode: 0o600 })
}

/** Reads the first record as those versions did. Throws their error if they would refuse it. */
export async function readFormat1(directory: string): Promise<object> {
  const root = open({ path: join(directory, 'elections.mdb'), maxDbs: 4, encoding: 'string', readOnly: true })
  try {
    const record = root.openDB<string, string>({ name: 'meta', encoding: 'string' }).get('meta') ?? ''
    const start = record.indexOf('{')
    const isWhole = start >= 8 && record.startsWith(checksumOf('meta', record.slice(8)))
    if (!isWhole) throw new Error('its first record is damaged')
    const meta = JSON.parse(record.slice(start)) as { format: unknown }
    if (meta.format !== 1) throw new Error(`it has format ${String(meta.format)}; this version reads format 1.`)
    return meta
  } finally {
    await root.close()
  }
}

function encode(key: string, value: object, commit: number): string {
  const text = commit.toString(36) + JSON.stringify(value)
  return checksumOf(key, text) + text
}

function checksumOf(key: string, text: string): string {
  return crc32(key + text)
    .toString(16)
    .padStart(8, '0')
}
