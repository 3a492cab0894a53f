import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import ts from 'typescript'
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { findBlocks, readDocument, root } from '../documents.ts'
import type { Found } from '../servers/find-program.ts'
import { freePort } from '../servers/free-port.ts'
import { npmPackages } from '../servers/npm-packages.ts'
import { redis } from '../servers/redis.ts'
import { noteUntested } from '../servers/report-missing.ts'
import { describeWith } from '../servers/suite.ts'

const packages =
  '@nestjs/common@12 @nestjs/core@12 @nestjs/schedule@12 reflect-metadata@0.2 rxjs@7 bullmq@6 ioredis@5 node-cron@4 pm2@7'
const patience = { timeout: 60_000, interval: 50 }
const unhurried = { timeout: 180_000 }

let found: Found
beforeAll(async () => {
  found = await npmPackages('schedulers', packages.split(' '))
  if ('missing' in found) noteUntested('tenure beside other schedulers', found.missing)
}, 320_000)

/** Copies an example into a folder where it finds its imports. */
function copyOf(name: string): string {
  if ('missing' in found) throw new Error(found.missing)
  const folder = mkdtempSync(join(tmpdir(), 'tenure-schedulers-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  const modules = join(folder, 'node_modules')
  mkdirSync(modules)
  const installed = join(found.path, 'node_modules')
  for (const each of readdirSync(installed)) symlinkSync(join(installed, each), join(modules, each))
  symlinkSync(join(root, 'packages/tenure'), join(modules, 'tenure'))
  const example = join(root, 'examples', name)
  for (const file of readdirSync(example)) {
    if (file.endsWith('.ts')) writeFileSync(join(folder, file.replace(/ts$/, 'mjs')), compiled(join(example, file)))
    else copyFileSync(join(example, file), join(folder, file))
  }
  return folder
}

/** Returns a package of the project and all its dependencies. */
function neededBy(name: string, known = new Set<string>()): Set<string> {
  if (known.has(name)) return known
  known.add(name)
  const manifest = JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8')) as {
    readonly dependencies?: Readonly<Record<string, string>>
  }
  for (const each of Object.keys(manifest.dependencies ?? {})) neededBy(each, known)
  return known
}

/** Compiles a file as a NestJS project does. */
function compiled(file: string): string {
  const options = {
    module: ts.ModuleKind.ESNext,
    target: ts.ScriptTarget.ES2022,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
  }
  return ts.transpileModule(`import 'reflect-metadata'\n${readFileSync(file, 'utf8')}`, { compilerOptions: options })
    .outputText
}

function start(folder: string, args: readonly string[] = ['main.mjs'], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, args, { cwd: folder, env: { ...process.env, ...env } })
  onTestFinished(() => void child.kill('SIGKILL'))
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  }
  return { child, closed: once(child, 'close'), text: () => text }
}

async function linesOf(all: readonly ReturnType<typeof start>[], pattern: RegExp, count: number): Promise<string[]> {
  const lines = () => all.flatMap(({ text }) => text().split('\n')).filter((line) => pattern.test(line))
  await vi
    .waitUntil(() => lines().length >= count, patience)
    .catch(() => {
      throw new Error(all.map(({ text }) => text()).join('\n'))
    })
  return lines()
}

/** Checks that no two lines end with the same time or number. */
function expectOnce(lines: readonly string[]): void {
  const ends = lines.map((line) => line.split(' ').at(-1))
  expect(new Set(ends).size, lines.join('\n')).toBe(ends.length)
}

async function endAll(all: readonly ReturnType<typeof start>[]): Promise<void> {
  for (const { child } of all) child.kill('SIGTERM')
  await Promise.all(all.map(({ closed }) => closed))
}

test(
  'jobs-node-cron: one process executes each run, although node-cron starts it in every process',
  unhurried,
  async ({ skip }) => {
    if ('missing' in found) return skip(found.missing)
    const folder = copyOf('jobs-node-cron')
    const all = [start(folder), start(folder)]
    // A process skips a run only if another one has run it.
    await linesOf(all, /: skipped$/, 2)
    expect(await linesOf(all, /: ran$/, 2)).not.toEqual([])
  },
)

test(
  'jobs-node-cron: with the coordinator, one process runs all tasks, and another takes over when it is killed',
  unhurried,
  async ({ skip }) => {
    if ('missing' in found) return skip(found.missing)
    const folder = copyOf('jobs-node-cron')
    const all = [start(folder, ['coordinator.mjs']), start(folder, ['coordinator.mjs'])]
    const [first = ''] = await linesOf(all, /: reports$/, 3)
    expect(new Set(await linesOf(all, /: reports$/, 3))).toEqual(new Set([first]))
    const leader = all.find(({ child }) => first.startsWith(`${child.pid}:`))
    leader?.child.kill('SIGKILL')
    await leader?.closed
    const others = all.filter((each) => each !== leader)
    expect(others).toHaveLength(1)
    await linesOf(others, /: reports$/, 2)
  },
)

test(
  'jobs-nestjs: one process executes each run, although @Cron starts it in every process, and all processes exit cleanly',
  unhurried,
  async ({ skip }) => {
    if ('missing' in found) return skip(found.missing)
    const folder = copyOf('jobs-nestjs')
    const all = [start(folder), start(folder)]
    await linesOf(all, /: reports$/, 2)
    expect(await linesOf(all, /: skipped$/, 2)).not.toEqual([])
    await endAll(all)
  },
)

test('jobs-pm2: one of three processes in cluster mode runs the job', unhurried, async ({ skip }) => {
  if ('missing' in found) return skip(found.missing)
  const folder = copyOf('jobs-pm2')
  const pm2 = join(folder, 'node_modules/pm2/bin/pm2-runtime')
  const running = start(folder, [pm2, 'start', 'ecosystem.config.cjs'], { PM2_HOME: join(folder, 'pm2') })
  await linesOf([running], /App \[my-app:2\] online/, 1)
  expectOnce(await linesOf([running], /\d+: syncs/, 4))
  await endAll([running])
})

test('jobs-nextjs: one of two Next.js servers with the job runs it', unhurried, async ({ skip }) => {
  const next = await npmPackages('next-16', ['next@16', 'react@19', 'react-dom@19'])
  if ('missing' in next) return skip(next.missing)
  // The bundler requires everything under one root, without links that leave it.
  const folder = mkdtempSync(join(next.path, 'project-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  const modules = join(folder, 'node_modules')
  for (const part of ['dist', 'package.json']) {
    cpSync(join(root, 'packages/tenure', part), join(modules, 'tenure', part), { recursive: true })
  }
  for (const name of neededBy('fs-native-extensions')) {
    cpSync(join(root, 'node_modules', name), join(modules, name), { recursive: true })
  }
  copyFileSync(join(root, 'examples/jobs-nextjs/instrumentation.js'), join(folder, 'instrumentation.js'))
  const config = readFileSync(join(root, 'examples/jobs-nextjs/next.config.mjs'), 'utf8')
  const turbopack = `turbopack: { root: ${JSON.stringify(next.path)} }`
  writeFileSync(join(folder, 'next.config.mjs'), config.replace('{ serverExternal', `{ ${turbopack}, serverExternal`))
  mkdirSync(join(folder, 'app'))
  writeFileSync(join(folder, 'app/layout.js'), 'export default ({ children }) => <html><body>{children}</body></html>')
  writeFileSync(join(folder, 'app/page.js'), 'export default () => <p>hello</p>')
  const program = join(next.path, 'node_modules/next/dist/bin/next')
  const env = { NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'production', TENURE_STORE: `file://${folder}/leases` }
  const built = start(folder, [program, 'build'], env)
  expect(await built.closed, built.text()).toEqual([0, null])
  const ports = [await freePort(), await freePort()]
  const all = ports.map((port) => start(folder, [program, 'start', '--port', String(port)], env))
  await linesOf(all, /Ready in/, 2)
  expectOnce(await linesOf(all, /\d+: revalidates/, 4))
  await endAll(all)
})

describeWith(redis, 'a schedule before a queue', (server) => {
  test('jobs-queue: each slot is in the queue once, and a worker processes it', unhurried, async ({ skip }) => {
    if ('missing' in found) return skip(found.missing)
    const folder = copyOf('jobs-queue')
    const env = { REDIS_URL: server().url }
    const all = [start(folder, ['main.mjs'], env), start(folder, ['main.mjs'], env)]
    expectOnce(await linesOf(all, /sends invoices-\d+$/, 4))
    await endAll(all)
  })
})

test('docs/how-to/schedulers.md shows the code of the examples', () => {
  const document = 'docs/how-to/schedulers.md'
  const blocks = findBlocks(document, readDocument(document)).filter(({ info }) => info[0] === 'javascript')
  const sources = readdirSync(join(root, 'examples'))
    .filter((name) => name.startsWith('jobs'))
    .flatMap((name) => readdirSync(join(root, 'examples', name)).map((file) => join(root, 'examples', name, file)))
    .map((file) => readFileSync(file, 'utf8'))
  expect(blocks.length).toBeGreaterThan(6)
  const missing = blocks.filter(({ code }) => !sources.some((source) => source.includes(code)))
  expect(missing.map(({ line, code }) => `${document}:${line}\n${code}`)).toEqual([])
})
