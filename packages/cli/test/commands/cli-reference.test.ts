import { expect, test } from 'vitest'
import { common, rowsOf, tables } from '../option-tables.ts'
import { readDocument } from '../../../../test/documents.ts'

const text = readDocument('docs/reference/cli.md')

test('docs/reference/cli.md lists exactly the options of each command', () => {
  const [head = '', ...sections] = text.split(/^## tenure /m)
  const listed = (section: string) => section.split('\n').filter((line) => line.startsWith('| `--'))
  expect(listed(head)).toEqual(rowsOf(common))
  const found = new Map(sections.map((section) => [section.slice(0, section.indexOf('\n')), section]))
  for (const [name, table] of Object.entries(tables)) {
    const section = [...found].find(([title]) => title.split(', ').includes(name))?.[1] ?? ''
    expect(listed(section), name).toEqual(expect.arrayContaining(rowsOf(table, common)))
  }
  const all = new Set([...Object.values(tables).flatMap((table) => rowsOf(table, common)), ...rowsOf(common)])
  expect(listed(text).filter((row) => !all.has(row))).toEqual([])
})
