import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openStorage } from './data-directories.ts'

test('a network file system is refused unless allowNetworkFilesystem is set', async (context) => {
  // Nobody serves this mount. The kernel itself reports its type to users who do not own it.
  const directory = mkdtempSync(join(tmpdir(), 'tenure-fuse-'))
  const script = 'exec 3<>/dev/fuse && mount -t fuse -o fd=3,rootmode=40000,user_id=65534,group_id=65534 none "$1"'
  try {
    execFileSync('sh', ['-c', script, 'sh', directory], { stdio: 'pipe' })
  } catch (error) {
    const reason = `this machine does not allow to mount FUSE: ${String(error)}`
    console.warn(reason)
    context.skip(reason)
  }
  onTestFinished(() => {
    execFileSync('umount', ['--lazy', directory])
    rmSync(directory, { recursive: true })
  })
  const open = (allowNetworkFilesystem: boolean) => openStorage(directory, { allowNetworkFilesystem })
  const error = await open(false).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({
    message: expect.stringMatching(/cannot be used: .+ is on FUSE\. .+ set allowNetworkFilesystem/),
    cause: { code: 'UNSUPPORTED_FILESYSTEM' },
  })
  // The mount does not answer, but the service tried to use it.
  await expect(open(true)).rejects.toThrow(/EACCES|ENOTCONN|EPERM/)
})
