import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findStrictOptions } from './optional-options.ts'
import { entryPoints } from './functions-with-options.ts'

test.each(['packages/tenure', 'packages/testing', 'packages/service', 'packages/multicluster'])(
  'every optional option of %s accepts undefined',
  (folder) => {
    expect(findStrictOptions(entryPoints(folder))).toEqual([])
  },
)

test('an optional option that does not accept undefined is reported', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-optional-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'index.d.ts')
  const text = `
export interface Base { readonly inherited?: number }
export interface GoodOptions { readonly clock?: object | undefined; readonly needed: number; readonly any?: unknown }
export interface BadOptions extends Base { readonly clock?: object; readonly nested: { readonly deep?: string } }
export interface BadObserver { onEvent?(): undefined }
export declare function start(settings: { readonly inPlace?: boolean }, good: GoodOptions): void
export declare class Runner { run(options: { readonly signal?: object }): void }
export interface Answer { readonly record?: object }
`
  writeFileSync(file, text)
  expect(findStrictOptions([{ entry: 'planted', file }])).toEqual([
    'BadObserver.onEvent',
    'BadOptions.clock',
    'BadOptions.inherited',
    'BadOptions.nested.deep',
    'Runner.run(options).signal',
    'start(settings).inPlace',
  ])
})
