import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findBlocks, readDocument, type Block } from '../documents.ts'
import type { RunningServer } from '../servers/server.ts'
import { serve } from './serve.ts'

const document = 'docs/reference/http-api.md'
const shown = 'http://127.0.0.1:7070'
const blocks = findBlocks(document, readDocument(document))

/** A block of commands with the answers that are shown below it. */
interface Example {
  readonly block: Block
  readonly answers: readonly unknown[]
}

const examples: Example[] = []
for (const block of blocks) {
  if (block.info[0] === 'sh') examples.push({ block, answers: [] })
  else if (block.info[0] === 'json') {
    const last = examples.pop()
    if (last) examples.push({ ...last, answers: [...last.answers, JSON.parse(block.code)] })
  }
}

/** Values that differ in each run. */
const volatile =
  /(_at_ms|_remaining_ms|^retry_after_ms|^ts_ms|^last_heartbeat_ms|^version|^cluster_id|^cursor|^request_id|^since_ms|^answered_by|^active|^replica)$/

describe('the commands of the document, from top to bottom', () => {
  let serving: RunningServer
  beforeAll(async () => {
    serving = await serve('--min-ttl', '1s')
  })
  afterAll(() => serving.stop())

  test.for(examples.map((example) => [`${document}:${example.block.line}`, example] as const))(
    'the commands at %s get the answers that the page shows',
    async ([, { block, answers }]) => {
      const commands = block.code.replaceAll(shown, serving.url)
      // Answers end without a newline.
      const script = `curl() { command curl "$@" && echo; }\n${commands}`
      const { stdout } = await promisify(execFile)('bash', ['-e', '-c', script], { cwd: serving.directory })
      if (answers.length === 0) return expect(stdout).not.toBe('')
      const given = stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line): unknown => JSON.parse(line))
      expect(given.map(steady)).toEqual(answers.map(steady))
    },
  )

  test('the commands of the HTTP API page use every route of the service', async () => {
    const response = await fetch(`${serving.url}/openapi.json`)
    const { paths } = (await response.json()) as { paths: Record<string, Record<string, unknown>> }
    const routes = Object.entries(paths).flatMap(([path, verbs]) =>
      Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path}`),
    )
    expect(routes.length).toBeGreaterThan(10)
    const called = new Set(examples.flatMap(({ block }) => [...calls(block.code)]))
    const missing = routes.filter((route) => {
      const pattern = new RegExp(`^${route.replaceAll(/\{\w+\}/g, '[\\w-]+')}$`)
      return ![...called].some((call) => pattern.test(call))
    })
    expect(missing).toEqual([])
  })
})

/** Yields `POST /v1/…` for each curl command. */
function* calls(code: string): Iterable<string> {
  for (const command of code.split(/^curl /m).slice(1)) {
    const path = /127\.0\.0\.1:7070([^\s?']*)/.exec(command)?.[1]
    const verb = /-X (\w+)/.exec(command)?.[1] ?? (/ -d '/.test(command) ? 'POST' : 'GET')
    yield `${verb} ${path}`
  }
}

/** Replaces values that differ from run to run with the names of their types. */
function steady(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(steady)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      volatile.test(key) && inner !== null ? typeof inner : steady(inner),
    ]),
  )
}
