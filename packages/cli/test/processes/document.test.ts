import { expect, test } from 'vitest'
import { run } from '../tenure.ts'
import { readDocument } from '../../../../test/documents.ts'

const text = readDocument('docs/reference/cli.md')

test('the document and the examples of each help name every command', async () => {
  const { out } = await run(['--help'])
  const names = [...out.matchAll(/^ {2}([a-z]+) .*/gm)].map(([, name]) => name ?? '').filter((name) => name !== 'help')
  expect(names.length).toBeGreaterThan(10)
  for (const name of names) {
    expect(text).toMatch(new RegExp(`^\\| \\[\`tenure .*\\b${name}\\b`, 'm'))
    const help = await run([name, '--help'])
    expect(help).toMatchObject({ code: 0, error: '' })
    expect(help.out, name).toContain(`tenure ${name}`)
    expect(help.out, name).toContain('Exit codes: ')
    expect(help.out, name).toMatch(/^Examples:\n {2}\S/m)
  }
})
