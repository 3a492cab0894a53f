import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { findBlocks, readDocument, root } from '../documents.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { programs } from '../servers/programs.ts'
import { freePort } from '../servers/free-port.ts'

const blocks = findBlocks('docs/guide/service.md', readDocument('docs/guide/service.md'))
const blockWith = (text: string, language: string) =>
  blocks.find(({ info, code }) => info[0] === language && code.includes(text))?.code ?? ''

/** Runs commands of the document in their own folder, and ends the processes that they leave running. */
async function run(commands: string, files: Record<string, string> = {}): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-identity-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const tenure = `"${process.execPath}" "${join(root, 'packages/cli/bin/tenure.js')}"`
  const port = await freePort()
  const script = commands
    .replaceAll(/^tenure /gm, `${tenure} `)
    .replaceAll(`${tenure} serve`, `${tenure} serve --listen 127.0.0.1:${port}`)
    .replaceAll('127.0.0.1:7070', `127.0.0.1:${port}`)
  const { stdout } = await promisify(execFile)('bash', ['-e', '-c', `trap 'kill $(jobs -p)' EXIT\n${script}`], {
    cwd: folder,
  })
  return stdout
}

describeWithPrograms([programs.openssl], 'the commands of the guide about identity', () => {
  test("the service accepts a token that is signed with the user's own key, over TLS with a self-signed certificate", async () => {
    const answer = await run(blockWith('tenure token key', 'sh'))
    expect(JSON.parse(answer.slice(answer.indexOf('{')))).toMatchObject({
      is_leader: true,
      leader: { node_id: 'node_17', term: 1 },
    })
  })

  test('the service accepts a certificate made by hand, with the rights that the file gives to its name', async () => {
    const answer = await run(blockWith('-out clients.pem', 'sh'), {
      'rights.json': blockWith('"certificates"', 'json'),
    })
    expect(JSON.parse(answer)).toMatchObject({ is_leader: true, leader: { node_id: 'node_17' } })
  })
})
