import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { program, run, serve, temporaryFolder } from '../../tenure.ts'
import { newPath, startGuard } from '../guard/scene.ts'

const namespace = ['--pid', '--fork', '--mount-proc']
const hasNamespaces = spawnSync('unshare', [...namespace, 'true']).status === 0
const quick = ['--ttl', '10m', '--calls', '1']

/** The line about crashes, and the whole output. */
async function examined(store: string, env: Record<string, string> = {}) {
  const { code, out } = await run(['doctor', '--store', store, ...quick], { env })
  return { code, out, crash: /^crash +(.*)$/m.exec(out)?.[1] }
}

/** The same, run by the first process of a PID namespace, as in a container. */
async function examinedInContainer(store: string, env: Record<string, string> = {}) {
  const args = [...namespace, process.execPath, program, 'doctor', '--store', store, ...quick]
  const { stdout } = await promisify(execFile)('unshare', args, { env: { ...process.env, ...env } })
  return /^crash +(.*)$/m.exec(stdout)?.[1]
}

test('tenure doctor says that a file store notices crashes by itself', async () => {
  const { crash } = await examined(`file://${temporaryFolder()}`)
  expect(crash).toBe('noticed by the store: standbys take over when the process dies')
})

test('tenure doctor says why the library refuses releaseOnCrash', async () => {
  const { crash } = await examined('memory:')
  expect(crash).toBe('costs one lease: releaseOnCrash is refused here, because a memory store ends with its process')
})

test('tenure doctor says whether the guard of TENURE_GUARD accepts this process', async () => {
  const { url } = await serve(temporaryFolder())
  expect(await examined(url)).toMatchObject({ code: 0, crash: expect.stringContaining('a guard process releases') })
  const missing = newPath()
  const { code, crash, out } = await examined(url, { TENURE_GUARD: missing })
  expect({ code, crash }).toEqual({
    code: 0,
    crash: `costs one lease: the guard at ${missing} cannot be reached (ENOENT)`,
  })
  expect(out).toContain(`A crash costs one lease: the guard at ${missing} cannot be reached (ENOENT).`)
  const guard = await startGuard(url)
  const accepted = await examined(url, { TENURE_GUARD: `unix:${guard.path}` })
  expect(accepted.crash).toBe(`releaseOnCrash works, with the guard at unix:${guard.path}`)
  expect(guard.output.error).not.toContain('refused')
})

test.runIf(hasNamespaces)('tenure doctor says that a guard ends with the first process of a container', async () => {
  const { url } = await serve(temporaryFolder())
  expect(await examinedInContainer(url)).toContain('a guard would end with the first process of this container')
  const guard = await startGuard(url)
  const crash = await examinedInContainer(url, { TENURE_GUARD: guard.path })
  expect(crash).toBe(`costs one lease: the guard at ${guard.path} refuses this process: see its log`)
})
