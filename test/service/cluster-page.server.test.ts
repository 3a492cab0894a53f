/** The commands of docs/guide/service-cluster.md, with other ports. */
import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { findBlocks, readDocument } from '../documents.ts'
import { pathOf } from '../servers/find-program.ts'
import { freePort } from '../servers/free-port.ts'
import { end } from '../servers/process.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { command, ServiceRun } from './service-run.ts'

const document = 'docs/guide/service-cluster.md'
const blocks = findBlocks(document, readDocument(document))
const [start = '', look = '', ask = ''] = blocks
  .filter(({ info }) => info[0] === 'sh' && info[1] !== 'norun')
  .map(({ code }) => code)
const [shown = ''] = blocks.filter(({ info }) => info[0] === 'console').map(({ code }) => code)

describeWithPrograms([programs.etcd, programs.curl], 'The election service on several machines', () => {
  test(
    'the walkthrough of docs/guide/service-cluster.md works, up to the death of the active replica',
    { timeout: 60_000 },
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'tenure-page-'))
      onTestFinished(() => rmSync(folder, { recursive: true }))
      const ports = new Map<string, number>()
      for (const port of ['2379', '2380', '7070', '7071', '7080', '7081', '7090', '7091'])
        ports.set(port, await freePort())
      const here = (text: string) =>
        text.replaceAll(/127\.0\.0\.1:(\d{4})/g, (_, port: string) => `127.0.0.1:${ports.get(port)}`)
      const lines = start.split('\n')
      expect(lines).toHaveLength(4)
      const replicas: ServiceRun[] = []
      for (const line of lines) {
        expect(line).toMatch(/ &$/)
        const [program, ...args] = here(line).split(' ').slice(0, -1)
        if (program === 'tenure') replicas.push(new ServiceRun(args, {}, folder))
        else {
          expect(program).toBe('etcd')
          const own = ['listen-client-urls', 'advertise-client-urls'].map((flag) =>
            here(`--${flag}=http://127.0.0.1:2379`),
          )
          const peer = ['listen-peer-urls', 'initial-advertise-peer-urls'].map((flag) =>
            here(`--${flag}=http://127.0.0.1:2380`),
          )
          const more = [...own, ...peer, here('--initial-cluster=default=http://127.0.0.1:2380')]
          const etcd = spawn(pathOf(programs.etcd), [...args, ...more], { cwd: folder, stdio: 'ignore' })
          onTestFinished(() => end(etcd, 'SIGTERM'))
        }
      }
      onTestFinished(async () => void (await Promise.all(replicas.map((replica) => replica.end('SIGTERM')))))
      const run = async (code: string) => {
        const script = here(code).replaceAll(/^tenure /gm, `'${process.execPath}' '${command}' `)
        return (await promisify(execFile)('bash', ['-e', '-c', script], { cwd: folder })).stdout
      }
      const status = () => run(look).catch(() => '')
      const rows = (text: string) => text.trimEnd().split('\n').slice(2)
      await vi.waitUntil(async () => rows(await status()).length === 3, { timeout: 30_000, interval: 200 })
      const said = await status()
      expect(alike(said)).toEqual(alike(here(shown)))

      const [granted, led] = (await run(ask))
        .replace('}{', '}\n{')
        .split('\n')
        .map((line) => JSON.parse(line) as unknown)
      expect(granted).toMatchObject({ is_leader: true, leader: { node_id: 'node_17', term: 1 } })
      expect(led).toMatchObject({ leader: { node_id: 'node_17', term: 1 } })

      const active = lines.slice(1).findIndex((line) => {
        const advertised = here(line).split(' ').at(-2) ?? ''
        return rows(said)[0]?.endsWith(advertised)
      })
      const [asked = ''] = [7080, 7090, 7070].filter((_, at) => [1, 2, 0][at] !== active).map(String)
      await replicas[active]?.end('SIGKILL')
      const again = () => run(look.replace('7080', asked)).catch(() => '')
      await vi.waitUntil(async () => (await again()).includes('is active in term 2'), {
        timeout: 20_000,
        interval: 200,
      })
      const leader = await run(ask.replace(/[^]*\n(?=curl)/, '').replace('7090', asked))
      expect(JSON.parse(leader)).toMatchObject({ leader: { node_id: 'node_17', term: 1 } })
    },
  )
})

/** Returns the shape of the output: roles and addresses, without names, ids, and times. */
function alike(text: string): string[] {
  const [head = '', columns = '', ...rows] = text.trimEnd().split('\n')
  const steady = rows.map((row) => row.split(/ {2,}/)).map(([, role, , , address]) => `${role} ${address}`)
  const roles = steady.map((row) => row.split(' ')[0] ?? '')
  const addresses = steady.map((row) => row.split(' ')[1] ?? '').toSorted()
  return [
    head.replace(/^\S+/, 'NAME').replace(/cluster \S+/, 'cluster ID'),
    columns.replaceAll(/ +/g, ' '),
    ...roles,
    ...addresses,
  ]
}
