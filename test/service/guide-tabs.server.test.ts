/** The same election in several languages, as the guide to the service shows it. The Go and TypeScript code is compiled elsewhere. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { findBlocks, readDocument, root } from '../documents.ts'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from './serve.ts'

const text = readDocument('docs/guide/service.md')
const blocks = findBlocks('docs/guide/service.md', text.slice(text.indexOf('<!-- tabs -->')))
const run = promisify(execFile)

/** Returns the first block in a language, for a service at another address. */
function blockFor(language: string, url: string): string {
  const block = blocks.find(({ info }) => info[0] === language)?.code ?? ''
  expect(block).toContain('http://127.0.0.1:7070')
  return block.replaceAll('http://127.0.0.1:7070', url)
}

async function service() {
  const running = await serve()
  onTestFinished(() => running.stop())
  return running
}

describeWithPrograms([programs.python], 'the tabs of the guide to the service', () => {
  test('the shell lines win the election and release it', async () => {
    const { url } = await service()
    const { stdout } = await run('bash', ['-e', '-c', blockFor('sh', url)])
    const [won = '', resigned = ''] = stdout.split(/(?<=\})(?=\{)/)
    expect(JSON.parse(won)).toMatchObject({ is_leader: true, leader: { node_id: 'node-17', term: 1 } })
    expect(JSON.parse(resigned)).toMatchObject({ ok: true })
  })

  test('the Python code works while it leads', { timeout: 60_000 }, async () => {
    const { url } = await service()
    // The document leaves out what the reader saves. The first call ends the program.
    const save = 'import os\ndef save(term, text):\n    print(term, text, flush=True)\n    os._exit(0)\n'
    const { stdout } = await run(pathOf(programs.python), ['-c', save + blockFor('python', url)], {
      env: { ...process.env, PYTHONPATH: join(root, 'examples/python'), PYTHONDONTWRITEBYTECODE: '1' },
    })
    expect(stdout).toContain('1 one more line')
  })
})
