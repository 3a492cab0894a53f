import { execFile } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { findBlocks, readDocument, root } from '../documents.ts'
import { newRecipeFolder, waitOptions, startMachine, slowTest } from './recipe-folder.ts'
import { openNetwork, whyNoNetwork } from '../servers/network.ts'
import { postgres } from '../servers/postgres.ts'
import { programs } from '../servers/programs.ts'
import { describeWith, describeWithPrograms, describeWithRight } from '../servers/suite.ts'

const document = 'docs/guide/two-machines.md'
const blocks = findBlocks(document, readDocument(document)).filter(({ info }) => info[0] === 'sh')

/** Returns the commands to type in one place, in order. */
const commandsAt = (place: string) => blocks.filter(({ info }) => info[1] === place).map(({ code }) => code)

/** Returns a block that is shown but is not run unchanged, by a word in it. */
const shownWith = (word: string) => blocks.find(({ code }) => code.includes(word))?.code ?? ''

/** Creates a folder for each machine, with the command as npm installs it. */
async function install() {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-machines-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))
  const npm = (cwd: string, ...args: string[]) => promisify(execFile)('npm', args, { cwd, timeout: 240_000 })
  const packages = ['tenure', '@tenure/service', '@tenure/multicluster', '@tenure/cli'].flatMap((name) => ['-w', name])
  await npm(root, 'pack', '--ignore-scripts', '--pack-destination', folder, ...packages)
  const [, path = ''] = /^export PATH="\$PWD\/(.*):\$PATH"$/m.exec(shownWith('npm install')) ?? []
  expect(path).not.toBe('')
  await npm(folder, 'init', '-y')
  await npm(folder, 'install', '--prefer-offline', '--no-audit', '--no-fund', ...(await filesIn(folder, '.tgz')))
  const machines = ['machine-1', 'machine-2'].map((name) => {
    mkdirSync(join(folder, name), { mode: 0o700 })
    return join(folder, name)
  })
  return { machines: machines as [string, string], path: join(folder, path) }
}

async function filesIn(folder: string, ending: string): Promise<string[]> {
  const { readdir } = await import('node:fs/promises')
  return (await readdir(folder)).filter((name) => name.endsWith(ending)).map((name) => `./${name}`)
}

const noNetwork = process.env['CI'] === 'true' ? undefined : whyNoNetwork()

describeWithPrograms([programs.ip], 'Two machines in ten minutes', () => {
  describeWithRight(noNetwork, 'from npm install on machine one', () => {
    test(
      'the guide leads from npm install on machine one to a failover on machine two, and back after its token is revoked',
      { timeout: 420_000 },
      async () => {
        const { machines, path } = await install()
        const [folderOne, folderTwo] = machines
        const network = await openNetwork()
        onTestFinished(() => network.close())
        const [one, two] = network.hosts
        const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TENURE_')))
        const env = { ...clean, PATH: `${path}:${process.env['PATH'] ?? ''}` }
        const onOne = (script: string, more = {}) =>
          startMachine(one.shell(script), { cwd: folderOne, env: { ...env, ...more } })
        const onTwo = (script: string) => startMachine(two.shell(script), { cwd: folderTwo, env })
        const [prepare = '', job = '', lockOut = ''] = commandsAt('one')
        const [standby = '', ask = ''] = commandsAt('two')
        const [serve = ''] = commandsAt('serve')
        expect([commandsAt('one').length, commandsAt('two').length, commandsAt('serve').length]).toEqual([3, 2, 1])

        const prepared = onOne(`set -e\n${prepare}`)
        expect([await prepared.ended, prepared.output.error]).toEqual([0, ''])
        const [, id = ''] = /machine-2\.token is for machine-2, .* Its id is (\S+)/.exec(prepared.output.out) ?? []
        const [, carried = ''] = /^scp -p (.*) machine-2:$/m.exec(shownWith('scp')) ?? []
        for (const name of carried.split(' ')) {
          copyFileSync(join(folderOne, name), join(folderTwo, name))
          chmodSync(join(folderTwo, name), statSync(join(folderOne, name)).mode)
        }
        expect(carried.split(' ')).toEqual(['machine-2.token', 'service.pem'])

        const service = onOne(serve)
        await service.says('the service is listening')
        const first = onOne(job)
        await first.says('working on machine-1, term 1')
        const second = onTwo(standby)
        await vi.waitUntil(() => second.output.error.includes('machine-1'), waitOptions)
        const leader = onTwo(ask)
        expect(await leader.ended).toBe(0)
        expect(leader.output.out).toContain('machine-1')

        // A hard kill, so the lease is not released.
        first.child.kill('SIGKILL')
        await second.says('working on machine-2, term 2')
        expect(first.output.out).not.toContain('term 2')

        const third = onOne(job)
        await vi.waitUntil(() => third.output.error.includes('machine-2'), waitOptions)
        const locked = onOne(`set -e\n${lockOut}`, { ID: id })
        expect([await locked.ended, locked.output.error]).toEqual([0, ''])
        await third.says('working on machine-1, term 3')
        await vi.waitUntil(() => second.output.error.includes('revoked'), waitOptions)
        expect(second.output.out).not.toContain('term 3')
        const refused = onTwo(ask)
        expect(await refused.ended).toBe(69)
        expect(refused.output.error).toContain('The credential has been revoked.')

        const tokens = ['machine-1.token', 'machine-2.token', 'admin.token'].map((name) =>
          readFileSync(join(folderOne, name), 'utf8').trim(),
        )
        const all = [prepared, service, first, second, third, leader, locked, refused]
        const said = all.map(({ output }) => output.out + output.error).join('')
        for (const token of tokens) expect(said).not.toContain(token)
      },
    )
  })
})

describeWith(postgres, 'Two machines in ten minutes, with a database instead', (server) => {
  test('the guide with a database leads from an empty folder to a job that fails over', slowTest, async () => {
    const [examine = '', job = '', ask = ''] = commandsAt('database')
    expect(commandsAt('database')).toHaveLength(3)
    const { machine } = newRecipeFolder({ TENURE_STORE: server().url })
    const doctor = machine(examine)
    expect(await doctor.ended).toBe(0)
    expect(doctor.output.out).toMatch(/^Safe/m)

    const start = (name: string) => machine(job.replace('$(hostname)', name), { TENURE_IDENTITY: name })
    const first = start('first')
    await first.says('working on first, term 1')
    const second = start('second')
    await vi.waitUntil(() => second.output.error.includes('first'), waitOptions)
    const leader = machine(ask)
    expect(await leader.ended).toBe(0)
    expect(leader.output.out).toContain('first')

    first.child.kill('SIGINT')
    await second.says('working on second, term 2')
    await first.ended

    // A hard kill, so the lease is not released.
    const third = start('third')
    await vi.waitUntil(() => third.output.error.includes('second'), waitOptions)
    second.child.kill('SIGKILL')
    await third.says('working on third, term 3')
    expect(second.output.out).not.toContain('term 3')
  })
})
