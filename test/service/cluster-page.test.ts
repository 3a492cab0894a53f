import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { errorStatus } from '../../packages/service/src/common/errors.ts'
import { protocol } from '../../packages/service/src/replication/peer-authentication.ts'
import { readDocument } from '../documents.ts'
import { listFiles, root } from '../source-files.ts'

const page = readDocument('docs/guide/service-cluster.md')
const source = listFiles()
  .filter((file) => file.startsWith('packages/service/src/'))
  .map((file) => readFileSync(join(root, file), 'utf8'))
  .join('\n')

/** The fixed parts of texts that are composed. */
const parts = ['This replica is not active: ', 'refuses this replica: ']

test('every log line that docs/guide/service-cluster.md explains is in the code', () => {
  const [, table = ''] = page.split('| line of the log |')
  const lines = [...(table.split('\n\n')[0] ?? '').matchAll(/^\| `([^`]+)` \| (info|warn|error) \|/gm)].map(
    ([, line]) => line ?? '',
  )
  expect(lines.length).toBeGreaterThan(10)
  const missing = lines.filter((line) => {
    const part = parts.find((each) => line.startsWith(each)) ?? ''
    const rest = line.slice(part.length).replace(/\.$/, '')
    return !source.includes(part) || !source.includes(rest)
  })
  expect(missing).toEqual([])
})

test('every metric, error code, and protocol that docs/guide/service-cluster.md names exists', () => {
  const metrics = new Set([...page.matchAll(/\btenure_[a-z_]+/g)].map(([name]) => name))
  expect(metrics.size).toBeGreaterThan(4)
  expect([...metrics].filter((name) => !source.includes(`'${name}'`))).toEqual([])
  const codes = [...page.matchAll(/503 `([A-Z_]+)`/g)].map(([, code]) => code)
  for (const code of codes) expect(errorStatus).toHaveProperty(code ?? '')
  const names = new Set([...page.matchAll(/tenure-link-\d+/g)].map(([name]) => name))
  expect([...names]).toEqual([protocol])
})
