/** The Go code of the documents compiles, and the documentation of the Go module is complete. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findBlocks, listDocuments, readDocument, root, type Block } from '../documents.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { runGo } from './run-go.ts'

/** The packages that an excerpt may use without an import, by their name in the code. */
const packages: Readonly<Record<string, string>> = {
  context: 'context',
  ctrl: 'sigs.k8s.io/controller-runtime',
  election: 'github.com/tenure-js/tenure/go/election',
  errors: 'errors',
  fmt: 'fmt',
  leaderelection: 'k8s.io/client-go/tools/leaderelection',
  multiclusterlease: 'github.com/tenure-js/tenure/go/multiclusterlease',
  os: 'os',
  rest: 'k8s.io/client-go/rest',
  time: 'time',
}
/** The variables and functions that an excerpt may use without declaring them. */
const given = `package excerpt
var (
	ctx context.Context
	config *rest.Config
	hostname string
	lock *multiclusterlease.Lock
	data []byte
)
func save(context.Context, int64, []byte) error { return nil }
func work(context.Context, *multiclusterlease.Lock) {}
`

/** Returns a Go file with the code as the body of a function. Compiler errors name the line of the document. */
function fileOf({ document, line, code }: Block): string {
  const body = `func run() error {\n//line ${document}:${line}\n${code}\n//line end:1\nreturn nil\n}\n`
  return withImports(`package excerpt\n${body}`)
}

function withImports(text: string): string {
  const used = Object.entries(packages).filter(([name]) => new RegExp(`(?<![\\w."/])${name}\\.\\w`).test(text))
  const imports = used.map(([name, path]) => `import ${name} "${path}"\n`).join('')
  return text.replace('package excerpt\n', `package excerpt\n${imports}`)
}

/** Compiles excerpts with the dependencies of an example that has all of them. Returns the output of the compiler. */
async function compile(blocks: readonly Block[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-go-docs-'))
  try {
    const example = join(root, 'examples/go-controller-runtime')
    const manifest = readFileSync(join(example, 'go.mod'), 'utf8').replace('../../go', join(root, 'go'))
    writeFileSync(join(folder, 'go.mod'), manifest)
    writeFileSync(join(folder, 'go.sum'), readFileSync(join(example, 'go.sum')))
    for (const [index, block] of blocks.entries()) {
      const at = join(folder, `excerpt${index}`)
      mkdirSync(at)
      writeFileSync(join(at, 'excerpt.go'), fileOf(block))
      writeFileSync(join(at, 'given.go'), withImports(given))
    }
    return await runGo(['build', './...'], {}, folder).catch((error: unknown) => String(error))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

describeWithPrograms([programs.go], 'the Go module', () => {
  test('all Go code in the documents compiles', { timeout: 300_000 }, async () => {
    const blocks = listDocuments()
      .flatMap((document) => findBlocks(document, readDocument(document)))
      .filter(({ info }) => info[0] === 'go')
    expect(blocks.length).toBeGreaterThan(3)
    expect(await compile(blocks)).toBe('')
  })

  test('Go code in a document that does not compile is reported with its location', { timeout: 300_000 }, async () => {
    const block = { document: 'a.md', line: 7, info: ['go'], code: 'lock.Held()\nlock.Held().Never()' }
    expect(await compile([block])).toMatch(/a\.md:8(?::\d+)?: lock\.Held\(\)\.Never undefined/)
  })

  test('every exported name of the Go module has a comment', { timeout: 300_000 }, async () => {
    expect(await runGo(['test', '-count=1', '-v', '.'])).toMatch(/^--- PASS: TestEveryExportedNameIsDescribed/m)
  })

  test('go vet reports nothing about the Go examples', { timeout: 300_000 }, async () => {
    for (const folder of ['examples/go', 'examples/go-client-go', 'examples/go-controller-runtime']) {
      expect(await runGo(['vet', './...'], {}, join(root, folder)), folder).toBe('')
    }
  })
})
