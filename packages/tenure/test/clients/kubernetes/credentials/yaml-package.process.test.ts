import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm, symlink, writeFile, mkdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { kubeConfig } from './kube-config-file.ts'

const dist = fileURLToPath(new URL('../../../../dist', import.meta.url))
const server = 'https://10.0.0.1:6443'

/** A project that contains the library as published and a kubeconfig, but no other package. */
async function projectOf(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tenure-yaml-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const library = join(folder, 'library')
  await cp(dist, join(library, 'dist'), { recursive: true })
  await cp(join(dist, '../package.json'), join(library, 'package.json'))
  await mkdir(join(folder, 'node_modules'))
  await symlink(library, join(folder, 'node_modules/tenure'))
  await writeFile(join(folder, 'config'), kubeConfig({ server }, { token: 'x' }))
  return folder
}

const report = `
  let shown
  try { shown = fromKubeConfig('config').server } catch ({ code, message }) { shown = { code, message } }
  console.log(JSON.stringify(shown))`
const programs = {
  module: `import { fromKubeConfig } from 'tenure/kubernetes'\n${report}`,
  commonjs: `const { fromKubeConfig } = require('tenure/kubernetes')\n${report}`,
}

async function run(folder: string, type: keyof typeof programs): Promise<unknown> {
  const args = [`--input-type=${type}`, '-e', programs[type]]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder })
  return JSON.parse(stdout)
}

const types = ['module', 'commonjs'] as const

test.each(types)('reading a kubeconfig without the yaml package reports what to install: %s', async (type) => {
  expect(await run(await projectOf(), type)).toEqual({
    code: 'DRIVER_MISSING',
    message: expect.stringMatching(
      /^Reading a kubeconfig needs the package "yaml", but it cannot be loaded: Cannot find module 'yaml'\. Run: npm install yaml \(/,
    ),
  })
})

test.each(types)("the yaml package is found in the working directory's project: %s", async (type) => {
  const folder = await projectOf()
  const yaml = dirname(createRequire(import.meta.url).resolve('yaml/package.json'))
  await symlink(yaml, join(folder, 'node_modules/yaml'))
  expect(await run(folder, type)).toBe(server)
})

test.each([
  ['old', 'exports.parse = () => ({})', /it is older than version 2/],
  ['broken', 'throw new Error("half installed")', /half installed/],
])('a yaml package that is %s is rejected, and no other copy is used instead', async (_what, source, reason) => {
  const folder = await projectOf()
  const yaml = dirname(createRequire(import.meta.url).resolve('yaml/package.json'))
  await symlink(yaml, join(folder, 'node_modules/yaml'))
  const own = join(folder, 'library/node_modules/yaml')
  await mkdir(own, { recursive: true })
  await writeFile(join(own, 'index.js'), source)
  const message = expect.stringMatching(reason)
  expect(await run(folder, 'module')).toEqual({ code: 'DRIVER_MISSING', message })
})
