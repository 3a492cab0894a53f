import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { findBlocks, readDocument, type Block } from '../../../../test/documents.ts'
import { freePort } from '../../../../test/servers/free-port.ts'
import type { RunningServer } from '../../../../test/servers/server.ts'
import { serve } from '../../../../test/service/serve.ts'
import { program, temporaryFolder } from '../tenure.ts'

const document = 'docs/reference/cli.md'
const text = readDocument(document)

/** A block of commands with the output that docs/reference/cli.md shows below it. */
interface Example {
  readonly block: Block
  readonly shown: readonly Block[]
}

const examples: Example[] = []
for (const block of findBlocks(document, text)) {
  const [language, ...more] = block.info
  if (language === 'sh' && !more.includes('norun')) examples.push({ block, shown: [] })
  else if ((language === 'text' || language === 'json') && !more.includes('norun')) {
    const last = examples.pop()
    if (last) examples.push({ ...last, shown: [...last.shown, block] })
  }
}

describe('the commands in docs/reference/cli.md, from top to bottom', () => {
  let service: RunningServer
  let folder: string
  let port: number
  let metricsPort: number
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tenure-document-'))
    writeFileSync(join(folder, 'tenure'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`, { mode: 0o755 })
    service = await serve('--min-ttl', '1s')
    port = await freePort()
    metricsPort = await freePort()
  })
  afterAll(async () => {
    await service.stop()
    rmSync(folder, { recursive: true })
  })

  test.for(examples.map((example) => [`${document}:${example.block.line}`, example] as const))(
    'the commands at %s print the output that docs/reference/cli.md shows',
    async ([, { block, shown }]) => {
      const places = [
        ['http://127.0.0.1:7070', service.url],
        ['127.0.0.1:4040', `127.0.0.1:${port}`],
        ['127.0.0.1:9464', `127.0.0.1:${metricsPort}`],
        ['file:///var/lib/leases', `file://${folder}/leases`],
      ] as const
      const commands = places.reduce((script, [place, here]) => script.replaceAll(place, here), block.code)
      const { stdout } = await promisify(execFile)('bash', ['-e', '-c', commands], {
        env: { ...process.env, PATH: `${folder}:${process.env['PATH'] ?? ''}` },
      })
      const said = places.reduce((output, [place, here]) => output.replaceAll(here, place), stdout)
      if (shown.every(({ info }) => info[0] === 'json')) {
        const lines = said.split('\n').filter(Boolean)
        expect(lines.map((line) => steady(JSON.parse(line)))).toEqual(shown.map(({ code }) => steady(JSON.parse(code))))
      } else expect(withoutTimes(said)).toBe(withoutTimes(shown.map(({ code }) => `${code}\n`).join('')))
    },
  )
})

describe('the runs in other documents lead, and exit on request', () => {
  const shown = ['README.md', 'docs/reference/run.md', 'packages/cli/README.md'].flatMap((other) =>
    findBlocks(other, readDocument(other))
      .filter(({ info }) => info[0] === 'sh')
      .flatMap(({ code }) => code.split('\n').filter((line) => line.startsWith('tenure run ')))
      .map((line) => [other, line] as const),
  )

  test('README.md, docs/reference/run.md and packages/cli/README.md each contain a run', () => {
    expect(new Set(shown.map(([other]) => other)).size).toBe(3)
  })

  test.for(shown)('the run in %s leads, and exits on request: %s', { timeout: 60_000 }, async ([, line]) => {
    const folder = temporaryFolder()
    const scripts = {
      'consumer.js': '',
      'migrate.sh': '#!/bin/sh\n',
      'report.sh': '#!/bin/sh\n',
      'import.sh': '#!/bin/sh\n',
    }
    for (const [name, text] of Object.entries(scripts)) writeFileSync(join(folder, name), text, { mode: 0o755 })
    const service = await serve()
    onTestFinished(() => service.stop())
    const script = line
      .replace('tenure', `exec '${process.execPath}' '${program}'`)
      .replace('postgres://app@db.example.com/app', service.url)
    const child = spawn('bash', ['-c', script], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    const ended = once(child, 'close')
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
      // A run with --once exits on its own.
      if (!line.includes('--once') && /exited with|the next run is at/.test(text)) child.kill('SIGTERM')
    })
    const leads = line.includes('--shards') ? /owns shard 0 of ".*" with token \d+/ : /leads ".*" in term 1/
    expect([await ended, said]).toEqual([[0, null], expect.stringMatching(leads)])
  })
})

const volatile = /^(at|acquiredAt|renewedAt|remainingMs|lease_remaining_ms)$/

/** Replaces values that differ from run to run with the names of their types. */
function steady(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, volatile.test(key) ? typeof inner : steady(inner)]),
  )
}

/** Removes times, measurements and column widths, which differ from run to run. */
function withoutTimes(output: string): string {
  return output
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replaceAll(/-?\d+(\.\d+)?(ms|s|m)\b/g, 'DURATION')
    .replaceAll(/-?\d+\.\d+ %/g, 'SHARE')
    .replaceAll(/ +/g, ' ')
}
