import { chmodSync, existsSync, mkdtempSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { find } from './find.ts'
import { postgres } from './postgres.ts'
import { redis } from './redis.ts'
import { start } from './server.ts'

const program = { variable: 'TENURE_EXAMPLE_SERVER', binary: 'example-server', aptPackage: 'no-such-package' }
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

test('a program is found where a distribution keeps several versions', () => {
  const folder = folderWith('example-server')
  const directories = [`${folder.slice(0, folder.lastIndexOf('/'))}/*`]
  vi.stubEnv('PATH', '')
  expect(find({ ...program, directories })).toEqual({ path: join(folder, 'example-server') })
})

test('the variable comes first, and a wrong one is not passed over', () => {
  vi.stubEnv('PATH', folderWith('example-server'))
  const given = join(folderWith('other'), 'other')
  vi.stubEnv(program.variable, given)
  expect(find(program)).toEqual({ path: given })
  vi.stubEnv(program.variable, `${given}-gone`)
  expect(find(program)).toEqual({ missing: expect.stringContaining(`${program.variable}=${given}-gone`) })
})

describe.each([redis, postgres])('$name', (kind) => {
  const found = find(kind.program)
  test.runIf('path' in found && existsSync('/proc/self'))('leaves no process and no data behind', async () => {
    const server = await start(kind, 'path' in found ? found.path : '')
    const { pid } = server
    const directory = readlinkSync(`/proc/${pid}/cwd`)
    await server.stop()
    expect(existsSync(directory)).toBe(false)
    expect(() => process.kill(pid, 0)).toThrow(expect.objectContaining({ code: 'ESRCH' }))
  })
})

test('a server that does not start says why', async () => {
  const folder = folderWith('failing')
  writeFileSync(join(folder, 'failing'), '#!/bin/sh\necho the disk is gone >&2\nexit 1\n')
  await expect(start(redis, join(folder, 'failing'))).rejects.toThrow(/Redis did not get ready.*the disk is gone/s)
})
