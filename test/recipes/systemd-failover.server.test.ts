import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { freePort } from '../servers/free-port.ts'
import { serve } from '../service/serve.ts'
import { exampleFile, newRecipeFolder, waitOptions, documentBlock, slowTest } from './recipe-folder.ts'

const unit = readFileSync(exampleFile('systemd-failover/my-app.service'), 'utf8')
const valueOf = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(unit)?.[1] ?? ''

/** Listens on a port that only one process can use, so that a second process fails. */
const app = `#!${process.execPath}
const { createServer } = require('node:http')
const { TENURE_IDENTITY, TENURE_TERM, PORT } = process.env
const server = createServer((request, response) => response.end(TENURE_IDENTITY + ' in term ' + TENURE_TERM))
server.listen(PORT, '127.0.0.1')
process.on('SIGTERM', () => { console.log('winds down'); setTimeout(() => { console.log('done'); process.exit() }, 300) })
`

test('systemd-failover: the document shows the lines of the unit', () => {
  for (const line of documentBlock('A failover pair with systemd', 'ini').split('\n'))
    expect(unit.split('\n')).toContain(line)
})

describeWithPrograms([programs.systemd], 'systemd-failover, to systemd', () => {
  test('systemd-failover: systemd-analyze finds no error in the unit', () => {
    const { folder } = newRecipeFolder({})
    const path = join(folder, 'my-app.service')
    // systemd-analyze looks for the program, which is not installed here.
    writeFileSync(path, unit.replace('/usr/bin/tenure', process.execPath))
    const { status, stderr } = spawnSync(pathOf(programs.systemd), ['verify', path], { encoding: 'utf8' })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  })
})

async function pair() {
  const service = await serve()
  onTestFinished(() => service.stop())
  const port = await freePort()
  const { folder, put, machine } = newRecipeFolder({ PORT: String(port), TENURE_STORE: service.url, TENURE_TTL: '4s' })
  put('my-app', app)
  expect(valueOf('Environment')).toMatch(/^TENURE_STORE=/)
  /** Starts the same program as systemd on a machine of this name, with `%H` replaced. */
  const start = (host: string) => {
    const command = valueOf('ExecStart').replace('%H', host).replaceAll('/usr/bin/', `${folder}/`)
    expect(command).not.toContain('%')
    return machine(`exec ${command}`)
  }
  const answers = (text: RegExp) =>
    vi.waitUntil(async () => {
      const answer = await fetch(`http://127.0.0.1:${port}`, { headers: { connection: 'close' } }).catch(
        () => undefined,
      )
      return text.test((await answer?.text().catch(() => '')) ?? '')
    }, waitOptions)
  return { service, start, answers }
}

/** Starts a pair in which the first machine leads and the second one waits. */
async function ledPair() {
  const both = await pair()
  const first = both.start('host-a')
  await both.answers(/^host-a in term 1$/)
  const second = both.start('host-b')
  await second.says('host-a leads "my-app"')
  return { ...both, first, second }
}

test(
  'systemd-failover: the second machine starts the program after the first one has stopped it',
  slowTest,
  async () => {
    const { answers, first, second } = await ledPair()
    // systemctl stop with KillMode=mixed signals only the main process.
    expect(valueOf('KillMode')).toBe('mixed')
    first.child.kill('SIGTERM')
    await answers(/^host-b in term/)
    expect(await first.ended).toBe(0)
    expect(first.output.out).toBe('winds down\ndone\n')
    expect(second.output.error).not.toContain('EADDRINUSE')
  },
)

test(
  'systemd-failover: the second machine starts the program when the first one is gone, and systemd restarts the first',
  slowTest,
  async () => {
    const { start, answers, first, second } = await ledPair()
    first.child.kill('SIGKILL')
    await answers(/^host-b in term/)
    expect(second.output.error).not.toContain('EADDRINUSE')
    expect(valueOf('Restart')).toBe('always')
    await start('host-a').says('host-b leads "my-app" in term')
  },
)

test(
  'systemd-failover: the program stops when the store is gone, and starts again when it is back',
  slowTest,
  async () => {
    const { service, start, answers } = await pair()
    const first = start('host-a')
    await answers(/^host-a in term 1$/)
    await service.kill('SIGKILL')
    await vi.waitUntil(() => first.output.out.includes('winds down'), waitOptions)
    await service.start()
    await answers(/^host-a in term [2-9]$/)
  },
)

test(
  'systemd-failover: systemd gives tenure time to stop, and does not restart it after a configuration error',
  slowTest,
  async () => {
    expect(Number(valueOf('TimeoutStopSec'))).toBeGreaterThan(30)
    const { machine } = newRecipeFolder({})
    const wrong = machine('exec tenure run my-app --store nowhere -- true')
    expect(await wrong.ended).toBe(Number(valueOf('RestartPreventExitStatus')))
  },
)
