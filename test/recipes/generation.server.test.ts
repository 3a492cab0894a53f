import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test, vi } from 'vitest'
import { parse } from 'yaml'
import { findBlocks, readDocument } from '../documents.ts'
import { pathOf } from '../servers/find-program.ts'
import { npmPackages } from '../servers/npm-packages.ts'
import { programs } from '../servers/programs.ts'
import { noteUntested } from '../servers/report-missing.ts'
import { describeWithCluster, describeWithPrograms } from '../servers/suite.ts'
import { newRecipeFolder, slowTest, waitOptions } from './recipe-folder.ts'

const document = 'docs/how-to/preference.md'
const text = readDocument(document)

describeWithCluster('the generation of a Deployment', (cluster) => {
  /** Asks the API server whether it would accept a Deployment with this part of the document. */
  const dryRun = (yaml: string) => {
    const { template } = parse(yaml)
    const [container] = template.spec.containers
    const labels = { app: 'search' }
    const body = {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'search' },
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { ...template.metadata, labels },
          spec: { containers: [{ ...container, image: 'search' }] },
        },
      },
    }
    const path = '/apis/apps/v1/namespaces/default/deployments?dryRun=All&fieldValidation=Strict'
    return cluster().admin.request<{ message?: string }>('POST', path, body)
  }

  test('the API server accepts the manifest in the document, and refuses one with a wrong path', async () => {
    const block = findBlocks(document, text).find(({ info }) => info[0] === 'yaml')?.code ?? ''
    const rendered = block.replace('{{ .Release.Revision }}', '7')
    expect(rendered).not.toBe(block)
    expect(await dryRun(rendered)).toMatchObject({
      status: 201,
      body: { spec: { template: { metadata: { annotations: { 'tenure.dev/generation': '7' } } } } },
    })
    const broken = await dryRun(
      rendered.replace("metadata.annotations['tenure.dev/generation']", 'metadata.generation'),
    )
    expect(broken).toMatchObject({ status: 422, body: { message: expect.stringContaining('fieldPath') } })
  })
})

describeWithPrograms([programs.systemd], 'the generation of a systemd unit', () => {
  test('systemd-analyze accepts the line in the document', () => {
    const line = /`(EnvironmentFile=[^`]+)`/.exec(text)?.[1] ?? ''
    const { folder } = newRecipeFolder({})
    const path = join(folder, 'search.service')
    const unit = (environment: string) => `[Service]\n${environment}\nExecStart=${process.execPath} --version\n`
    const verify = (environment: string) => {
      writeFileSync(path, unit(environment))
      return spawnSync(pathOf(programs.systemd), ['verify', path], { encoding: 'utf8' })
    }
    expect(verify(line)).toMatchObject({ status: 0, stderr: '' })
    expect(verify(line.replace('/', '')).stderr).toContain('EnvironmentFile')
  })
})

test('pm2 passes the generation of the documented reload to the program', { timeout: 400_000 }, async ({ skip }) => {
  const found = await npmPackages('pm2', ['pm2@7'])
  if ('missing' in found) {
    noteUntested('the generation of a program under pm2', found.missing)
    return skip(found.missing)
  }
  const [setting = ''] = /env: \{ TENURE_GENERATION: [^}]+\}/.exec(text) ?? []
  const [reload = ''] = /TENURE_GENERATION=\$\(date \+%s\) pm2 reload [^`]+/.exec(text) ?? []
  const { folder, put, lines } = newRecipeFolder({})
  put('ecosystem.config.js', `module.exports = { apps: [{ name: 'search', script: './search.js', ${setting} }] }`)
  const program = "require('fs').appendFileSync('generations', process.env.TENURE_GENERATION + '\\n')"
  put('search.js', `${program}; setInterval(() => {}, 1e9)`)
  const run = (command: string) => {
    const path = `${join(found.path, 'node_modules/.bin')}:${process.env['PATH']}`
    const env = { ...process.env, PATH: path, PM2_HOME: join(folder, 'pm2') }
    const { status, stderr } = spawnSync('sh', ['-c', command], { cwd: folder, env, encoding: 'utf8' })
    expect(status, stderr).toBe(0)
  }
  onTestFinished(() => run('pm2 kill'))
  run('TENURE_GENERATION=41 pm2 start ecosystem.config.js')
  await vi.waitUntil(() => lines('generations').includes('41'), waitOptions)
  const startedSeconds = Math.floor(Date.now() / 1e3)
  run(reload)
  const newest = await vi.waitUntil(() => Number(lines('generations')[1]), waitOptions)
  expect(newest).toBeGreaterThanOrEqual(startedSeconds)
})

test(
  'tenure run reads its generation from TENURE_GENERATION, and refuses one that is not a number',
  slowTest,
  async () => {
    const { folder, machine } = newRecipeFolder({})
    const store = pathToFileURL(join(folder, 'leases')).href
    const command = `exec tenure run search-index --store '${store}' --present --identity node-1 -- sleep 60`
    machine(command, { TENURE_GENERATION: '1763481600' })
    const members = async () => {
      const { output, ended } = machine(`exec tenure members search-index --store '${store}' --json`)
      await ended
      return output.out.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
    }
    await vi.waitUntil(async () => (await members()).length > 0, waitOptions)
    expect(await members()).toMatchObject([{ node_id: 'node-1', generation: 1_763_481_600 }])
    const { output, ended } = machine(command, { TENURE_GENERATION: 'v1.2.3' })
    expect(await ended).toBe(2)
    expect(output.error).toMatch(/TENURE_GENERATION.*must be a whole number from 0 to/)
  },
)
