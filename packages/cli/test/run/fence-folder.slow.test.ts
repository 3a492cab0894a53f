/**
 * The folder of `tenure run` is in a temporary directory that all users share. It may be removed there, and another
 * user may take its name (G6).
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { noOtherUser, otherUser } from './other-user.ts'
import { runs, scene, signal, type Wrapper } from './scene.ts'
import { temporaryFolder } from '../tenure.ts'

interface Victim extends Wrapper {
  /** The temporary directory. */
  readonly temporary: string
  /** The folder that the command was given. */
  readonly folder: string
  /** A folder of the victim. It contains the file `precious`. */
  readonly home: string
  readonly precious: string
  folders(): string[]
}

/** Starts a run with a running command, in a temporary directory like /tmp, with frequent renewals. */
async function victim(): Promise<Victim> {
  const temporary = temporaryFolder()
  chmodSync(temporary, 0o1777)
  const home = temporaryFolder()
  chmodSync(home, 0o755)
  const precious = join(home, 'fence.json')
  writeFileSync(precious, 'precious')
  const on = scene()
  const script = 'echo "$TENURE_FENCE_FILE"; exec sleep 60'
  const wrapper = on.run(['--ttl', '2s', '--', 'sh', '-c', script], { env: { TMPDIR: temporary } })
  await vi.waitUntil(() => wrapper.output.out.endsWith('\n'), { timeout: 20_000 })
  const folders = () => readdirSync(temporary).map((name) => join(temporary, name))
  return { ...wrapper, temporary, home, precious, folder: dirname(wrapper.output.out.trim()), folders }
}

/** Runs a script as the other user. */
function attack(script: string, ...args: string[]): void {
  const { status, stderr } = spawnSync(
    process.execPath,
    ['-e', `const fs = require('fs'); ${script}`, ...args],
    otherUser,
  )
  expect([status, String(stderr)]).toEqual([0, ''])
}

/** Waits until the fence file has moved, and returns its new folder. */
async function moved({ folder, folders, output }: Victim): Promise<string> {
  await vi.waitUntil(() => output.error.includes('was removed or replaced'), { timeout: 20_000 })
  const place = await vi.waitUntil(
    () => folders().find((each) => each !== folder && existsSync(join(each, 'fence.json'))),
    { timeout: 20_000 },
  )
  expect(JSON.parse(readFileSync(join(place, 'fence.json'), 'utf8'))).toMatchObject({ election: 'jobs', term: 1 })
  expect(statSync(place)).toMatchObject({ uid: process.getuid?.(), mode: 0o40700 })
  expect(statSync(join(place, 'fence.json')).mode & 0o777).toBe(0o600)
  return place
}

async function renewed(place: string): Promise<void> {
  const file = join(place, 'fence.json')
  const before = readFileSync(file, 'utf8')
  await vi.waitUntil(() => readFileSync(file, 'utf8') !== before, { timeout: 20_000 })
}

test('tenure run replaces its removed folder with one that has another name, and removes the new folder at the end', async () => {
  const at = await victim()
  rmSync(at.folder, { recursive: true })
  await renewed(await moved(at))
  expect(at.folders()).toHaveLength(1)
  expect(at.output.error.split('was removed or replaced')).toHaveLength(2)
  at.child.kill('SIGTERM')
  expect(await at.ended).toBe(143)
  expect(at.folders()).toEqual([])
})

describe.skipIf(noOtherUser !== undefined)(`another user takes the name of a removed folder${reason()}`, () => {
  test('tenure run does not write through links in a folder of another user, and leaves that folder unchanged', async () => {
    const at = await victim()
    rmSync(at.folder, { recursive: true })
    const links = ['fence.json', 'fence.json.new']
    attack(
      `const [folder, target, ...names] = process.argv.slice(1)
       fs.mkdirSync(folder)
       fs.chmodSync(folder, 0o777)
       for (const name of names) fs.symlinkSync(target, folder + '/' + name)`,
      at.folder,
      at.precious,
      ...links,
    )
    await renewed(await moved(at))
    at.child.kill('SIGTERM')
    expect(await at.ended).toBe(143)
    expect(readFileSync(at.precious, 'utf8')).toBe('precious')
    expect(readdirSync(at.folder)).toEqual(links)
    expect(at.folders()).toEqual([at.folder])
  })

  test('tenure run writes and removes nothing through a link to a folder of the victim', async () => {
    const at = await victim()
    rmSync(at.folder, { recursive: true })
    attack('const [folder, target] = process.argv.slice(1); fs.symlinkSync(target, folder)', at.folder, at.home)
    await renewed(await moved(at))
    at.child.kill('SIGTERM')
    expect(await at.ended).toBe(143)
    expect(readdirSync(at.home)).toEqual(['fence.json'])
    expect(readFileSync(at.precious, 'utf8')).toBe('precious')
  })

  test('the supervisor of a killed tenure removes nothing from a folder of another user', async () => {
    const at = await victim()
    const supervisor = at.supervisor()
    at.child.kill('SIGSTOP')
    rmSync(at.folder, { recursive: true })
    attack(
      `const [folder] = process.argv.slice(1)
       fs.mkdirSync(folder)
       fs.writeFileSync(folder + '/fence.json', 'planted')`,
      at.folder,
    )
    signal(at.child.pid ?? 0, 'SIGKILL')
    await vi.waitUntil(() => !runs(supervisor), { timeout: 20_000 })
    expect(readdirSync(at.folder)).toEqual(['fence.json'])
  })

  test('tenure run stops using a folder that was made writable for others by mistake', async () => {
    const at = await victim()
    chmodSync(at.folder, 0o777)
    attack(
      `const [folder, target] = process.argv.slice(1)
       fs.rmSync(folder + '/fence.json')
       fs.symlinkSync(target, folder + '/fence.json.new')`,
      at.folder,
      at.precious,
    )
    await renewed(await moved(at))
    expect(readFileSync(at.precious, 'utf8')).toBe('precious')
  })
})

function reason(): string {
  return noOtherUser === undefined ? '' : ` (skipped: ${noOtherUser})`
}
