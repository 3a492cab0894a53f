import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

const where = '(in the directory of your project, or with --global if the "tenure" command was installed with --global)'
const own = join(import.meta.dirname, '../..')

/** Installs the library alone, like a global command, next to a project in which it is called. */
function install(url = 'postgres://nobody@127.0.0.1:1/none'): { script: string; project: string } {
  const place = mkdtempSync(join(tmpdir(), 'tenure-drivers-'))
  onTestFinished(() => rmSync(place, { recursive: true, force: true }))
  const library = join(place, 'lib/node_modules/tenure')
  mkdirSync(dirname(library), { recursive: true })
  for (const part of ['dist', 'package.json']) cpSync(join(own, part), join(library, part), { recursive: true })
  const script = join(place, 'lib/open.mjs')
  const open = `import { openStore } from 'tenure/stores'
    const store = await openStore('${url}').catch((error) => error)
    console.log(JSON.stringify({ code: store.code, message: store.message, expiry: store.expiry }))`
  writeFileSync(script, open)
  const project = join(place, 'project')
  mkdirSync(join(project, 'node_modules'), { recursive: true })
  return { script, project }
}

async function openIn({ script, project }: ReturnType<typeof install>): Promise<unknown> {
  const { stdout } = await promisify(execFile)(process.execPath, [script], { cwd: project })
  return JSON.parse(stdout)
}

test('a missing client is reported with its npm install command', async () => {
  expect(await openIn(install())).toEqual({
    code: 'DRIVER_MISSING',
    message: `This store needs the package "pg": npm install pg ${where}`,
  })
})

test("a client that is installed in the working directory's project is found", async () => {
  const place = install()
  const installed = join(own, '../../node_modules')
  symlinkSync(join(installed, 'pg'), join(place.project, 'node_modules/pg'))
  expect(await openIn(place)).toEqual({ expiry: 'observed' })
})

test('a client that fails to load is not reported as missing', async () => {
  const place = install()
  const broken = join(place.project, 'node_modules/pg')
  mkdirSync(broken)
  writeFileSync(join(broken, 'index.js'), `require('pg-of-nobody')`)
  expect(await openIn(place)).toMatchObject({
    code: 'DRIVER_MISSING',
    message: expect.stringMatching(/^The package "pg" cannot be loaded: Cannot find module 'pg-of-nobody'/),
  })
})

test('the Redis store accepts either client and suggests one when both are missing', async () => {
  const place = install('redis://127.0.0.1:1')
  expect(await openIn(place)).toEqual({
    code: 'DRIVER_MISSING',
    message: `This store needs the package "ioredis" or "redis": npm install ioredis ${where}`,
  })
  const installed = join(own, '../../node_modules')
  for (const name of ['redis', 'ioredis']) {
    symlinkSync(join(installed, name), join(place.project, 'node_modules', name))
    expect(await openIn(place)).toEqual({ expiry: 'observed' })
  }
})

test('the NATS store names both of its packages when either is missing', async () => {
  const place = install('nats://127.0.0.1:1/leases')
  const message = `This store needs the packages "@nats-io/transport-node" and "@nats-io/kv": npm install @nats-io/transport-node @nats-io/kv ${where}`
  expect(await openIn(place)).toEqual({ code: 'DRIVER_MISSING', message })
  const installed = join(own, '../../node_modules')
  mkdirSync(join(place.project, 'node_modules/@nats-io'))
  symlinkSync(join(installed, '@nats-io/transport-node'), join(place.project, 'node_modules/@nats-io/transport-node'))
  expect(await openIn(place)).toEqual({ code: 'DRIVER_MISSING', message })
  symlinkSync(join(installed, '@nats-io/kv'), join(place.project, 'node_modules/@nats-io/kv'))
  expect(await openIn(place)).toEqual({ expiry: 'observed' })
})

test.each(['mysql', 'mariadb'])('opening a %s: URL reports that mysql2 is missing, and loads it', async (scheme) => {
  const place = install(`${scheme}://nobody@127.0.0.1:1/none`)
  expect(await openIn(place)).toEqual({
    code: 'DRIVER_MISSING',
    message: `This store needs the package "mysql2": npm install mysql2 ${where}`,
  })
  symlinkSync(join(own, '../../node_modules/mysql2'), join(place.project, 'node_modules/mysql2'))
  expect(await openIn(place)).toEqual({ expiry: 'observed' })
})

test.each([
  ['dynamodb://leases', '@aws-sdk/client-dynamodb'],
  ['s3://leases', '@aws-sdk/client-s3'],
  ['azblob://myaccount/leases', '@azure/storage-blob'],
])('opening %s reports a missing SDK', async (url, name) => {
  expect(await openIn(install(url))).toEqual({
    code: 'DRIVER_MISSING',
    message: `This store needs the package "${name}": npm install ${name} ${where}`,
  })
})

test('opening a SQLite file on Node.js 20 reports that a package with SQLite is missing, and accepts either', async () => {
  const place = install('sqlite:///tmp/leases.db')
  expect(await openIn(place)).toEqual({
    code: 'DRIVER_MISSING',
    message: `This store needs Node.js 22.13 or newer, or a package that contains SQLite: npm install better-sqlite3 ${where}. The package "libsql" works as well.`,
  })
  symlinkSync(join(own, '../../node_modules/libsql'), join(place.project, 'node_modules/libsql'))
  expect(await openIn(place)).toEqual({ expiry: 'observed' })
})

test('intervals work without croner, and a cron expression reports its npm install command', async () => {
  const place = install()
  const job = (schedule: string) =>
    `jobs.every(${schedule}, { name: 'job-' + (jobs.count = (jobs.count ?? 0) + 1) }, () => {})`
  writeFileSync(
    place.script,
    `import { memoryStore } from 'tenure'
    import { createJobs } from 'tenure/jobs'
    const jobs = createJobs({ store: memoryStore() })
    ${job('{ hours: 1 }')}
    try { ${job("'@daily'")} } catch ({ code, message }) { console.log(JSON.stringify({ code, message })) }
    await jobs.close()`,
  )
  expect(await openIn(place)).toEqual({
    code: 'DRIVER_MISSING',
    message: `A cron expression needs the package "croner": npm install croner ${where}. Intervals such as { minutes: 5 } work without it.`,
  })
  symlinkSync(join(own, '../../node_modules/croner'), join(place.project, 'node_modules/croner'))
  await expect(openIn(place)).rejects.toThrow('Unexpected end of JSON input')
})

test('electionTelemetry reports its npm install command when OpenTelemetry is missing', async () => {
  const place = install()
  writeFileSync(
    place.script,
    `import { electionTelemetry } from 'tenure/telemetry'
    const provider = { getMeter: () => { throw new Error('asked') }, getTracer: () => ({}) }
    const messages = [{}, { meterProvider: provider, tracerProvider: provider }].map((options) => {
      try { electionTelemetry(options) } catch ({ code, message }) { return { code, message } }
    })
    console.log(JSON.stringify(messages))`,
  )
  const instead = 'Or pass a meterProvider and a tracerProvider.'
  expect(await openIn(place)).toEqual([
    {
      code: 'DRIVER_MISSING',
      message: `electionTelemetry() needs OpenTelemetry: npm install @opentelemetry/api ${where}. ${instead}`,
    },
    { message: 'asked' },
  ])
})
