import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { withLineBreaks } from '../scripts/line-breaks.js'
import { mergeDeclarations } from '../scripts/merge-declarations.js'
import { pruneDeclarations } from '../scripts/prune-declarations.js'
import { root } from './documents.ts'

test('an uncaught error thrown by the built library shows the statement and the functions that threw it', () => {
  const program = `import { Elector, memoryStore } from 'tenure'
    new Elector({ store: memoryStore(), election: 'a', leaseDurationMs: 1 })`
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: root,
    encoding: 'utf8',
  })
  const [place, line = ''] = stderr.split('\n')
  expect(place).toMatch(/packages\/tenure\/dist\/shared\/\w+\.js:\d+$/)
  expect(line).toMatch(/^.{0,200}new TypeError\(message\).{0,200}$/)
  for (const name of ['checkDuration', 'timingsOf', 'new Elector']) expect(stderr).toMatch(new RegExp(`at ${name} \\(`))
})

test('importing the library loads none of the network, cryptography, and thread modules of Node', () => {
  const program = `import 'tenure'
    console.log(JSON.stringify(process.moduleLoadList))`
  const options = { cwd: root, encoding: 'utf8' } as const
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], options)
  const loaded = JSON.parse(stdout) as string[]
  expect(loaded).toContain('NativeModule os')
  const costly = ['net', 'tls', 'http', 'https', 'crypto', 'worker_threads', 'child_process', 'dns']
  expect(loaded.filter((name) => costly.includes(name.replace('NativeModule ', '')))).toEqual([])
})

test('each statement and each member of a class is on its own line, and a string keeps its text', () => {
  const code =
    'import a from"b";class C{#x=1;m(){if(a)return;for(;;){a();break}}}const s=`one;two`;switch(s){case 1:a();a()}'
  expect(withLineBreaks(code)).toBe(
    [
      'import a from"b";',
      'class C{',
      '#x=1;',
      'm(){',
      'if(a)return;',
      'for(;;){',
      'a();',
      'break}}}',
      'const s=`one;two`;',
      'switch(s){case 1:',
      'a();',
      'a()}',
    ].join('\n'),
  )
})

/** Writes declarations, changes them, and returns what is left. */
function withDeclarations(files: Readonly<Record<string, string>>, change: (folder: string) => void) {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-declarations-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'parts'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  change(folder)
  const left = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.d.ts'))
  return Object.fromEntries(left.map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
}

function prune(files: Readonly<Record<string, string>>, ...options: [((entry: string, name: string) => boolean)?]) {
  return withDeclarations(files, (folder) => pruneDeclarations(folder, ['index'], ...options))
}

function merge(files: Readonly<Record<string, string>>) {
  return withDeclarations(files, (folder) => mergeDeclarations(folder, ['index', 'parts/index']))
}

const declarations = {
  'index.d.ts': "export { Store, type Options as StoreOptions } from './parts/store.ts';\n",
  'parts/store.d.ts': `import type { Clock, Timer } from './clock.ts';
import { type Server } from 'node:http';
/** Only for this file. */
type Untimed = Omit<Clock, 'now'>;
/** A store. */
export declare class Store extends Base {
    #private;
    [symbol](): typeof import('./values.ts').limit;
}
export declare const symbol: unique symbol;
export declare class Base {
}
/** Options of a store. */
export interface Options extends Untimed {
}
/** Nobody can import this. */
export declare function secret(timer: Timer, server: Server): void;
export {};
`,
  'parts/clock.d.ts': 'export interface Clock {\n}\nexport interface Timer {\n}\n',
  'parts/values.d.ts': 'export declare const limit = 1, other = 2;\nexport declare const unused = 3;\n',
  'parts/unreached.d.ts': 'export interface Unreached {\n}\n',
}

test('pruning keeps what an entry point exports, what that refers to, and its comments', () => {
  const kept = prune(declarations)
  expect(Object.keys(kept).toSorted()).toEqual([
    'index.d.ts',
    'parts/clock.d.ts',
    'parts/store.d.ts',
    'parts/values.d.ts',
  ])
  expect(kept['index.d.ts']).toBe(declarations['index.d.ts'])
  expect(kept['parts/clock.d.ts']).toBe('export interface Clock {\n}\n')
  expect(kept['parts/values.d.ts']).toBe('export declare const limit = 1, other = 2;\n')
  expect(kept['parts/store.d.ts']).toBe(
    declarations['parts/store.d.ts']
      .replace('{ Clock, Timer }', '{ Clock }')
      .replace("import { type Server } from 'node:http';\n", '')
      .replace(/\/\*\* Nobody[^]*?void;\n/, ''),
  )
})

test('pruning drops the names of an entry point that nobody may import', () => {
  const kept = prune(declarations, (_, name) => name !== 'Store')
  expect(kept['index.d.ts']).toBe("export { type Options as StoreOptions } from './parts/store.ts';\n")
  expect(kept['parts/store.d.ts']).not.toContain('class')
  expect(prune(declarations, () => false)).toEqual({ 'index.d.ts': 'export {};\n' })
})

test('pruning refuses a statement that it does not understand', () => {
  expect(() => prune({ 'index.d.ts': "export * from './parts/clock.ts';\n" })).toThrow('cannot be pruned: export *')
})

test('merging keeps the entry points, and moves every other declaration to one file', () => {
  const files = merge({
    'index.d.ts': `import type { Server } from 'node:http';
/** The main entry point. */
export { Store, type Options as StoreOptions } from './parts/store.ts';
export { fast } from './parts/index.ts';
export declare const server: Server;
`,
    'parts/index.d.ts': "import type { Options } from './store.ts';\nexport declare const fast: Options;\n",
    'parts/store.d.ts': `import { type Server } from 'node:http';
import type { Clock } from './clock.ts';
import { fast } from './index.ts';
/** Only for this file. */
type Untimed = Omit<Clock, 'now'>;
/** A store. */
export declare class Store {
    use(server: Server): typeof fast;
}
export interface Options extends Untimed {
}
export { Clock };
`,
    'parts/clock.d.ts': `import type { Agent, Server } from 'node:http';
export interface Clock {
    agent: Agent | Server;
}
export {};
`,
  })
  expect(files).toEqual({
    'index.d.ts': `import type { Server } from 'node:http';
/** The main entry point. */
export { Store, type Options as StoreOptions } from './types.ts';
export { fast } from './parts/index.ts';
export declare const server: Server;
`,
    'parts/index.d.ts': "import type { Options } from '../types.ts';\nexport declare const fast: Options;\n",
    'types.d.ts': `import type { Agent, Server } from 'node:http';
import type { fast } from './parts/index.ts';
export interface Clock {
    agent: Agent | Server;
}
/** Only for this file. */
type Untimed = Omit<Clock, 'now'>;
/** A store. */
export declare class Store {
    use(server: Server): typeof fast;
}
export interface Options extends Untimed {
}
export {};
`,
  })
})

test.each([
  ['two files with the same name', 'interface Clock {\n}\n', 'a.d.ts and parts/b.d.ts both have a Clock'],
  ['a name that a file imports from elsewhere', "import { Clock } from 'c';\n", 'both have a Clock'],
  ['a name that a file imports as another one', "import { Clock as C } from '../a.ts';\n", 'as another one'],
  ['a type that names its file', "type A = import('../a.ts').Clock;\n", "has import('../a.ts').Clock"],
])('merging refuses %s', (_, text, message) => {
  expect(() => merge({ 'a.d.ts': 'export interface Clock {\n}\n', 'parts/b.d.ts': text })).toThrow(message)
})
