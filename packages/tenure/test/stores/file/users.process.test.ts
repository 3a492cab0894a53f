import { chmod, chown, mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Granted, Outcome } from '../../../src/engine/lease-store.ts'
import { call, claim, files, grant, openStore, temporaryDirectory } from './fixtures.ts'
import { noOtherUsers, User } from './other-user.ts'

/** A directory like /tmp, where anyone may create entries, and nobody may remove the entries of others. */
async function publicDirectory(mode = 0o1777): Promise<string> {
  const directory = await temporaryDirectory()
  await chmod(directory, mode)
  return directory
}

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o7777).toString(8)
}

/** Collects the permission warnings of this process, without the path of the directory. */
function listen(directory: string): string[] {
  const warnings: string[] = []
  const hear = (warning: Error & { code?: string }) => {
    if (warning.code === 'UNSAFE_PERMISSIONS') warnings.push(warning.message.replaceAll(directory, ''))
  }
  process.on('warning', hear)
  onTestFinished(() => void process.off('warning', hear))
  return warnings
}

const told = () => new Promise((resolve) => setImmediate(resolve))
const foreign = { code: 'UNSAFE_PERMISSIONS', retryable: false, message: expect.stringContaining('shareWithGroup') }
const refused = { code: 'EACCES' }

describe.skipIf(noOtherUsers)('another user of the machine', () => {
  test('another user has no access to a directory that the store created', async () => {
    const directory = join(await publicDirectory(), 'state', 'leases')
    const warnings = listen(directory)
    const store = openStore({ directory })
    const { record } = await grant(store)
    const on = files(directory)
    const { signOfLife } = await on.readLease()
    const socket = join(directory, signOfLife?.path ?? '')
    expect(await modeOf(directory)).toBe('700')
    expect(await modeOf(join(directory, '..'))).toBe('700')
    for (const path of [on.lease, on.termRecord, on.lock, socket]) expect(await modeOf(path)).toBe('600')

    const other = await User.start()
    await expect(other.do('list', directory)).rejects.toMatchObject(refused)
    for (const path of [on.lease, on.termRecord, on.lock]) {
      await expect(other.do('lockShared', path)).rejects.toMatchObject(refused)
    }
    await expect(other.do('connect', socket)).rejects.toMatchObject(refused)
    await other.do('open', { directory })
    await expect(other.do('acquire', 'mallory', 1)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringContaining('To share them within a group, set shareWithGroup'),
    })
    expect(await store.renew(record, call())).toMatchObject({ ok: true })
    await told()
    expect(warnings).toEqual([])
  })

  test('another user cannot lock the files even when it may list the directory', async () => {
    const directory = await publicDirectory(0o755)
    const { record } = await grant(openStore({ directory }))
    const other = await User.start()
    const names = await other.do<string[]>('list', directory)
    expect(names).toContain('jobs.json.lock')
    for (const name of names.filter((name) => !name.endsWith('.sock'))) {
      await expect(other.do('lockShared', join(directory, name))).rejects.toMatchObject(refused)
    }
    for (const name of names.filter((name) => name.endsWith('.sock'))) {
      await expect(other.do('connect', join(directory, name))).rejects.toMatchObject(refused)
    }
    expect(await openStore({ directory }).renew(record, call())).toMatchObject({ ok: true })
  })

  test('another user can end a leadership when the lock file is readable, and the store warns about it', async () => {
    const directory = await publicDirectory(0o755)
    await writeFile(files(directory).lock, '', { mode: 0o644 })
    const warnings = listen(directory)
    const store = openStore({ directory })
    const { record } = await grant(store)
    await told()
    expect(warnings).toEqual([
      expect.stringMatching(/^"" has mode 0755: .*Run: chmod 0700 ''$/),
      expect.stringMatching(/^"\/jobs\.json\.lock" has mode 0644: .*Run: chmod 0600 '\/jobs\.json\.lock'$/),
    ])
    const other = await User.start()
    expect(await other.do('lockShared', files(directory).lock)).toBe(true)
    const bound = AbortSignal.timeout(100)
    await expect(store.renew(record, call(bound))).rejects.toMatchObject({ name: 'TimeoutError' })
  })

  test('acquire fails in a directory that another user created first', async () => {
    const place = await publicDirectory()
    const directory = join(place, 'leases')
    const other = await User.start()
    await other.do('makeDirectory', directory, 0o777)
    await expect(openStore({ directory }).acquire(claim(), call())).rejects.toMatchObject(foreign)
    expect(await files(directory).list()).toEqual([])
    // Reading from another user's directory is safe.
    expect(await openStore({ directory }).read('jobs', call())).toBeUndefined()
  })

  test('the store notices when another user replaces its directory', async () => {
    const place = await publicDirectory()
    const directory = join(place, 'leases')
    const store = openStore({ directory })
    const { record } = await grant(store)
    await rename(directory, join(place, 'swept'))
    const other = await User.start()
    await other.do('makeDirectory', directory, 0o777)
    await expect(store.renew(record, call())).rejects.toMatchObject(foreign)
    expect(await files(directory).list()).toEqual([])
  })

  test('another user cannot redirect the store with a symbolic link', async () => {
    const place = await publicDirectory()
    const target = await temporaryDirectory()
    const other = await User.start()
    await other.do('link', target, join(place, 'leases'))
    const store = openStore({ directory: join(place, 'leases') })
    await expect(store.acquire(claim(), call())).rejects.toMatchObject(foreign)
    expect(await files(target).list()).toEqual([])
  })

  test.each(['jobs.json', 'jobs.json.term', 'jobs.json.lock'])(
    'nobody is elected when another user has planted %s',
    async (name) => {
      const place = await publicDirectory()
      const source = await temporaryDirectory()
      const { record } = await grant(openStore({ directory: source }))
      const other = await User.start()
      await other.do('write', join(place, name), await readFile(join(source, name), 'utf8'))
      await chmod(join(place, name), 0o666)
      const store = openStore({ directory: place })
      const claimed = store.acquire(claim({ afterTerm: record.term }), call())
      // Some kernels refuse to open such a file for writing.
      const error = name.endsWith('.lock')
        ? expect.stringMatching(/UNSAFE_PERMISSIONS|BACKEND_UNAVAILABLE/)
        : foreign.code
      await expect(claimed).rejects.toMatchObject({ code: error })
      if (name === 'jobs.json') await expect(store.read('jobs', call())).rejects.toMatchObject(foreign)
    },
  )

  test.each(['jobs.json.tmp', 'jobs.json.term.tmp', 'jobs.json.lock', 'jobs.json'])(
    'a link that another user planted as %s changes no file elsewhere',
    async (name) => {
      // Without the sticky bit the kernel does not protect links by itself.
      const directory = await publicDirectory(0o777)
      const precious = join(await temporaryDirectory(), 'precious')
      await writeFile(precious, 'as it was', { mode: 0o600 })
      const other = await User.start()
      await other.do('link', precious, join(directory, name))
      const outcome = await openStore({ directory })
        .acquire(claim(), call())
        .catch((error: unknown) => error)
      if (name.endsWith('.tmp')) expect(outcome).toMatchObject({ ok: true })
      else expect(String(outcome)).toMatch(/links are not followed: remove it/)
      expect(await readFile(precious, 'utf8')).toBe('as it was')
      expect(await modeOf(precious)).toBe('600')
    },
  )
})

describe.skipIf(noOtherUsers)('users of one group', () => {
  const group = 60_000
  const [ada, bob, mallory] = [60_001, 60_002, 60_003]

  async function twoUsers(directory: string) {
    const users = [await User.start(ada, group), await User.start(bob, group)] as const
    for (const user of users) await user.do('open', { directory, shareWithGroup: true })
    return users
  }

  test.each(['that the store has created', 'that was created for them'])(
    'users of one group share a directory %s',
    async (which) => {
      const place = await publicDirectory()
      const directory = join(place, 'leases')
      if (which !== 'that the store has created') {
        await mkdir(directory)
        await chown(directory, 0, group)
        await chmod(directory, 0o2770)
      }
      const [first, second] = await twoUsers(directory)
      const won = await first.do<Granted>('acquire', 'ada')
      expect(await modeOf(directory)).toBe('2770')
      for (const name of await files(directory).list()) {
        expect([name, await modeOf(join(directory, name))]).toEqual([name, '660'])
        expect((await stat(join(directory, name))).gid).toBe(group)
      }
      const lost = await second.do<Outcome>('acquire', 'bob', 1)
      expect(lost).toMatchObject({ ok: false, record: { holder: 'ada' } })
      expect(await first.do('release', won.record)).toMatchObject({ ok: true })
      const next = await second.do<Granted>('acquire', 'bob', 1)
      expect(next).toMatchObject({ ok: true, record: { holder: 'bob', term: 2 } })
      expect(await second.do('release', next.record)).toMatchObject({ ok: true })
      expect(await first.do('acquire', 'ada', 2)).toMatchObject({ ok: true, record: { term: 3 } })

      const stranger = await User.start(mallory)
      await stranger.do('open', { directory, shareWithGroup: true })
      await expect(stranger.do('acquire', 'mallory', 3)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    },
  )

  test('an error tells a group member without shareWithGroup to set it', async () => {
    const directory = await temporaryDirectory()
    await chown(directory, ada, group)
    await chmod(directory, 0o2770)
    const second = await User.start(bob, group)
    await second.do('open', { directory })
    await expect(second.do('acquire', 'bob')).rejects.toMatchObject({
      code: 'UNSAFE_PERMISSIONS',
      message: expect.stringContaining('set shareWithGroup'),
    })
  })

  test('a warning about a shared directory does not suggest a chmod that would lock other members out', async () => {
    const directory = await temporaryDirectory()
    await chown(directory, 0, group)
    await chmod(directory, 0o2770)
    await writeFile(files(directory).lock, '')
    await chmod(files(directory).lock, 0o660)
    const warnings = listen(directory)
    await grant(openStore({ directory }))
    await told()
    const instead = /To share it within a group, set shareWithGroup \(in a URL: \?shareWithGroup=true\)/
    expect(warnings).toEqual([expect.stringMatching(/^"" has mode 2770: /), expect.stringMatching(/ has mode 0660: /)])
    for (const warning of warnings) {
      expect(warning).toMatch(instead)
      expect(warning).not.toContain('chmod')
    }
  })

  test('a warning does not suggest a chmod that only root could run', async () => {
    const directory = await temporaryDirectory()
    await chown(directory, 0, group)
    await chmod(directory, 0o770)
    const user = await User.start(ada, group)
    await user.do('open', { directory })
    await user.do('acquire', 'ada')
    expect(await user.do('warnings')).toEqual([
      expect.stringMatching(/ has mode 0770: .* set shareWithGroup \(in a URL: \?shareWithGroup=true\)/),
    ])
  })

  test('an error tells group members how to repair a shared directory without the set-group-ID bit', async () => {
    const directory = await temporaryDirectory()
    await chown(directory, ada, group)
    await chmod(directory, 0o770)
    await writeFile(files(directory).lock, '', { mode: 0o600 })
    const [, second] = await twoUsers(directory)
    const rejected = expect(second.do('acquire', 'bob')).rejects
    await rejected.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringMatching(/chgrp and chmod 0660 on the files, and chgrp and chmod g\+s/),
    })
    await expect(second.do('acquire', 'bob')).rejects.not.toThrow('set shareWithGroup')
    expect(await second.do('warnings')).toEqual([
      expect.stringMatching(/ has mode 0770: without the set-group-ID bit, .*\. Have its owner run: chmod g\+s '/),
    ])
  })
})
