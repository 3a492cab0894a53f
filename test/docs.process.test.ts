import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { findBlocks, findDeadLinks, findScripts, listDocuments, readDocument, root, type Block } from './documents.ts'

const documents = listDocuments()
const blocks = documents.flatMap((document) => findBlocks(document, readDocument(document)))
const code = blocks.filter(({ info }) => info[0] === 'js' || info[0] === 'ts')
const programs = code.filter(({ info }) => info.includes('run'))

/** The declarations that an excerpt may use without showing them. */
const given = `
declare const store: import('tenure').LeaseStore
declare const leadership: import('tenure').Leadership
declare const signal: AbortSignal
declare const saved: { term: number }
declare function save(data: { term: number; body: string }): Promise<void>
declare function work(options: { signal: AbortSignal; term: number }): Promise<void>
declare function makeStore(): import('@tenure/testing/conformance').StoreUnderTest
declare function makeBackend(clock: import('tenure').Clock): import('tenure').CompareAndSwap
declare const logger: { info(data: object): void; warn(data: object, text: string): void }
declare const histogram: { record(value: number, labels: Record<string, string>): void }
declare const bucket: {
  read(key: string): Promise<import('tenure').VersionedValue | undefined>
  writeIf(key: string, value: string, version: string | undefined): Promise<string | undefined>
}
declare const redis: {
  set(key: string, value: string, px: 'PX', ms: number, nx: 'NX'): Promise<string | null>
  eval(script: string, keys: number, ...rest: (string | number)[]): Promise<unknown>
}
declare const storage: import('tenure').TtlStorage<string, string>
`

const run = promisify(execFile)

/** Runs a program in an empty folder with only the library and its test helpers installed. */
async function runProgram(program: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-docs-'))
  try {
    mkdirSync(join(folder, 'node_modules/@tenure'), { recursive: true })
    for (const [name, place] of [
      ['tenure', 'tenure'],
      ['testing', '@tenure/testing'],
    ] as const) {
      symlinkSync(join(root, 'packages', name), join(folder, 'node_modules', place), 'dir')
    }
    // The document gives the reader half a minute to watch. The test does not need it.
    writeFileSync(join(folder, 'main.mjs'), program.replace('wait(30_000', 'wait(300'))
    const { stdout } = await run(process.execPath, ['main.mjs'], { cwd: folder, timeout: 80_000 })
    return stdout
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const name = ({ document, line }: Block) => `${document}:${line}`

describe('a program in the documents runs to completion', () => {
  test.concurrent.for(programs.map((block) => [name(block), block] as const))(
    'the program in %s runs to completion',
    { timeout: 90_000 },
    async ([, block]) => {
      await runProgram(block.code)
    },
  )

  test('a program in the documents that fails is reported', async () => {
    await expect(runProgram("import { nothing } from 'tenure'")).rejects.toThrow('nothing')
  })
})

test('the first program is the same wherever it is shown and has at most ten lines', () => {
  const first = programs.find((block) => block.document === 'README.md')
  expect(first?.code).toContain('await lead(')
  expect(first?.code.split('\n').length).toBeLessThanOrEqual(10)
  const example = readFileSync(join(root, 'examples/first-program/main.mjs'), 'utf8')
  expect(example.replaceAll(/^\/\/.*\n/gm, '').trim()).toBe(first?.code)
})

test('the shutdown example in the documents shuts down cleanly', async () => {
  const shown = code.find(
    ({ document, code }) => document === 'docs/guide/styles.md' && code.includes('const stopping'),
  )
  const program = `
    import { memoryStore } from 'tenure'
    const store = memoryStore()
    const work = ({ signal }) => new Promise((_, reject) => {
      signal.onabort = () => reject(signal.reason)
      process.kill(process.pid, 'SIGTERM')
    })
    ${(shown?.code ?? '').replace('error: unknown', 'error')}
    console.log('ended')`
  expect(await runProgram(program)).toBe('ended\n')
})

/** Compiles excerpts as modules in a folder from which every package of the workspace can be imported. */
async function compile(excerpts: readonly Block[]): Promise<string[]> {
  mkdirSync(join(root, 'node_modules/.cache'), { recursive: true })
  const folder = mkdtempSync(join(root, 'node_modules/.cache/tenure-docs-'))
  try {
    writeFileSync(join(folder, 'given.d.ts'), given)
    const files = excerpts.map((block, index) => {
      const file = `excerpt-${index}.${block.info[0] === 'js' ? 'mjs' : 'mts'}`
      writeFileSync(join(folder, file), `${block.code}\nexport {}\n`)
      return file
    })
    const project = {
      extends: join(root, 'tsconfig.base.json'),
      // An excerpt often declares names that only the reader's code uses.
      compilerOptions: { noEmit: true, allowJs: true, checkJs: true, noUnusedLocals: false, noUnusedParameters: false },
      files: ['given.d.ts', ...files],
    }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(project))
    const compiler = join(root, 'node_modules/typescript-7/bin/tsc')
    const found = await run(process.execPath, [compiler, '--pretty', 'false', '-p', folder], { cwd: folder }).then(
      ({ stdout }) => stdout,
      (error: { stdout: string }) => error.stdout,
    )
    // Indented lines explain the line above.
    const lines = found.split('\n').filter((line) => line !== '' && !line.startsWith(' '))
    return lines.map((line) => {
      const [, index, at, message] = /^excerpt-(\d+)\.\w+\((\d+),\d+\): (.*)$/.exec(line) ?? []
      const of = excerpts[Number(index)]
      return of === undefined ? line : `${of.document}:${of.line + Number(at) - 1} ${message}`
    })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test('all code in the documents compiles', async () => {
  expect(code.length).toBeGreaterThan(0)
  expect(await compile(code)).toEqual([])
})

test('code in the documents that does not fit the library is reported with its location', async () => {
  const wrong = (line: number, language: string, text: string) => ({
    document: 'a.md',
    line,
    info: [language],
    code: text,
  })
  const placesIn = async (...excerpts: Block[]) => (await compile(excerpts)).map((text) => text.split(' ')[0])
  const right = wrong(30, 'js', 'leadership.term')
  expect(await placesIn(wrong(7, 'ts', '\nleadership.trem'), right)).toEqual(['a.md:8'])
  // The compiler reports nothing else about code that it cannot parse.
  expect(new Set(await placesIn(wrong(20, 'js', 'const = 1'), right))).toEqual(new Set(['a.md:20']))
})

test.each(documents)('every link in %s points to an existing target', (document) => {
  expect(findDeadLinks(document, readDocument(document))).toEqual([])
})

test('every script that a document names exists', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const missing = documents.flatMap((document) =>
    findScripts(readDocument(document))
      .filter((script) => !Object.hasOwn(scripts, script))
      .map((script) => `${document}: ${script}`),
  )
  expect(missing).toEqual([])
})

test('dead links, unknown scripts, and unclosed blocks are reported', () => {
  const text = [
    '# A Title, with `code`',
    '[a](LICENSE) [b](gone.md) [c](#a-title-with-code) [d](#nowhere) [e](https://example.com) `[f](x.md)`',
    '```sh',
    'npm run soak && npm test  # [g](y.md)',
    '```',
  ].join('\n')
  expect(findDeadLinks('a.md', text)).toEqual(['gone.md', '#nowhere'])
  expect(findScripts(text)).toEqual(['soak', 'test'])
  expect(findBlocks('a.md', text)).toMatchObject([{ line: 4, info: ['sh'], code: expect.stringContaining('soak') }])
  expect(() => findBlocks('a.md', '```js\n1')).toThrow('a.md:2')
})

test('ARCHITECTURE.md names exactly the files and folders of the library', () => {
  const listing = findBlocks('ARCHITECTURE.md', readDocument('ARCHITECTURE.md')).find(({ info }) => info[0] === 'text')
  const named = [...(listing?.code ?? '').matchAll(/^ {2}([\w/.-]+)/gm)].map((match) => match[1] ?? '')
  const files = readdirSync(join(root, 'packages/tenure/src'), { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('.ts'),
  )
  const covers = (entry: string, file: string) => file === entry || (entry.endsWith('/') && file.startsWith(entry))
  expect(files.filter((file) => !named.some((entry) => covers(entry, file)))).toEqual([])
  expect(named.filter((entry) => !files.some((file) => covers(entry, file)))).toEqual([])
})
