import { join } from 'node:path'
import { test } from 'vitest'
import { startChecks } from './start-checks.ts'

const folder = join(import.meta.dirname, '../..')

test.each(Object.keys(startChecks))('%s', { timeout: 60_000 }, async (name) => {
  await startChecks[name]?.(folder)
})
