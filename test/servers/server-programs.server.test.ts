import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { clusterPrograms, startCluster } from './cluster.ts'
import { etcd } from './etcd.ts'
import { cachePath, find, type Program } from './find-program.ts'
import { postgres } from './postgres.ts'
import { redis } from './redis.ts'
import { start } from './server.ts'

const program: Program = {
  variable: 'TENURE_EXAMPLE_SERVER',
  directoryVariable: 'TENURE_EXAMPLE_FOLDER',
  binary: 'example-server',
  source: { aptPackage: 'no-such-package' },
}
const folders: string[] = []
afterEach(() => {
  vi.unstubAllEnvs()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function folderWith(binary: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-find-'))
  folders.push(folder)
  writeFileSync(join(folder, binary), '#!/bin/sh\n')
  chmodSync(join(folder, binary), 0o755)
  return folder
}

test('a program is found on PATH', () => {
  const folder = folderWith('example-server')
  vi.stubEnv('PATH', folder)
  expect(find(program)).toEqual({ path: join(folder, 'example-server') })
})

test('a program is found where a distribution installs several versions', () => {
  const folder = folderWith('example-server')
  const directories = [`${folder.slice(0, folder.lastIndexOf('/'))}/*`]
  vi.stubEnv('PATH', '')
  expect(find({ ...program, directories })).toEqual({ path: join(folder, 'example-server') })
})

test('the environment variable of a program takes precedence, and a wrong value is reported', () => {
  vi.stubEnv('PATH', folderWith('example-server'))
  const given = join(folderWith('other'), 'other')
  vi.stubEnv(program.variable, given)
  expect(find(program)).toEqual({ path: given })
  vi.stubEnv(program.variable, `${given}-gone`)
  expect(find(program)).toEqual({ missing: expect.stringContaining(`${program.variable}=${given}-gone`) })
})

test('a folder in an environment variable takes precedence over PATH', () => {
  vi.stubEnv('PATH', folderWith('example-server'))
  const folder = folderWith('example-server')
  vi.stubEnv('TENURE_EXAMPLE_FOLDER', folder)
  expect(find(program)).toEqual({ path: join(folder, 'example-server') })
})

test('a missing program is reported with the command that installs it', () => {
  expect(find(program)).toEqual({ missing: expect.stringMatching(/example-server is not installed.*npm run servers/) })
})

test('a Go program gets a new name in the cache when its module changes', () => {
  const goModule = folderWith('main.go')
  const built: Program = { ...program, source: { goModule, buildMinutes: 1 } }
  const before = cachePath(built)
  expect(cachePath(built)).toBe(before)
  writeFileSync(join(goModule, 'main.go'), 'package main\n')
  expect(cachePath(built)).not.toBe(before)
})

function expectGone({ pid, directory }: { pid: number; directory: string }): void {
  expect(existsSync(directory)).toBe(false)
  expect(() => process.kill(pid, 0)).toThrow(expect.objectContaining({ code: 'ESRCH' }))
}

describe.each([redis, postgres, etcd])('$name', (kind) => {
  test.runIf('path' in find(kind.program))('a stopped server leaves no process and no data behind', async () => {
    const server = await start(kind)
    const { pid, directory } = server
    expect(existsSync(directory)).toBe(true)
    await server.stop()
    expectGone({ pid, directory })
  })
})

const hasCluster = clusterPrograms.every((needed) => 'path' in find(needed))

test.runIf(hasCluster)(
  'a test cluster leaves no process and no data behind, even if its parts are down or paused',
  async () => {
    const cluster = await startCluster()
    const parts = [cluster, cluster.etcd].map(({ pid, directory }) => ({ pid, directory }))
    await cluster.kill('SIGKILL')
    cluster.etcd.pause()
    await cluster.stop()
    for (const part of parts) expectGone(part)
  },
)

test.runIf('path' in find(etcd.program))(
  'a server ends with the process that started it, even if it is paused',
  async () => {
    const program = `
    import { load } from './scripts/load.js'
    const { start } = await load('test/servers/server.ts')
    const { etcd } = await load('test/servers/etcd.ts')
    const server = await start(etcd)
    server.pause()
    console.log(JSON.stringify({ pid: server.pid, directory: server.directory }))
    process.kill(process.pid, 'SIGKILL')`
    const cwd = join(import.meta.dirname, '../..')
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      cwd,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [[line]] = await Promise.all([once(child.stdout, 'data'), once(child, 'exit')])
    const server = JSON.parse(String(line))
    await vi.waitFor(() => expectGone(server), { timeout: 10_000, interval: 50 })
  },
)

test('a server that does not start reports why', async () => {
  const folder = folderWith('failing')
  writeFileSync(join(folder, 'failing'), '#!/bin/sh\necho the disk is gone >&2\nexit 1\n')
  await expect(start(redis, join(folder, 'failing'))).rejects.toThrow(/Redis was not ready in time.*the disk is gone/s)
})
