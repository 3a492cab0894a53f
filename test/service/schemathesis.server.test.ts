import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { pathOf } from '../servers/find-program.ts'
import { end } from '../servers/process.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from './serve.ts'

const settings = join(import.meta.dirname, './schemathesis')
/** The number of cases for each route. Other seeds find other problems. Try several after changing the routes. */
const { TENURE_FUZZ_CASES: cases = '40', TENURE_FUZZ_SEED: seed = '1' } = process.env

interface Report {
  readonly complete: boolean
  readonly test_cases: { readonly generated: number }
}

describeWithPrograms([programs.schemathesis], 'the OpenAPI document', () => {
  test(
    'the OpenAPI document is correct: no request gets a 5xx or an undocumented answer',
    { timeout: 600_000 },
    async () => {
      const service = await serve('--min-ttl', '1ms', '--max-ttl', '2147483647ms')
      onTestFinished(() => service.stop())
      const report = mkdtempSync(join(tmpdir(), 'tenure-fuzz-'))
      onTestFinished(() => rmSync(report, { recursive: true }))
      const file = join(report, 'report.json')
      // A client may ask for the leader of a deleted group, and watch it. One worker, because Python before 3.11.8
      // sometimes fails if two threads parse source concurrently.
      const args = `--checks all --exclude-checks use_after_free --max-examples ${cases} --seed ${seed} --continue-on-failure --request-timeout 10
      --workers 1 --generation-database none --report json --report-json-path ${file} --no-color`
      const { code, output } = await run(report, [
        '--config-file',
        join(settings, 'schemathesis.toml'),
        'run',
        `${service.url}/openapi.json`,
        ...args.split(/\s+/),
      ])
      expect(code, output).toBe(0)
      const { complete, test_cases } = JSON.parse(readFileSync(file, 'utf8')) as Report
      expect(complete).toBe(true)
      // A run without cases proves nothing.
      expect(test_cases.generated).toBeGreaterThan(500)
    },
  )
})

async function run(directory: string, args: readonly string[]): Promise<{ code: number | null; output: string }> {
  const child = spawn(pathOf(programs.schemathesis), args, {
    // schemathesis writes files to its working directory.
    cwd: directory,
    env: { ...process.env, SCHEMATHESIS_HOOKS: join(settings, 'hooks.py') },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => end(child, 'SIGTERM'))
  let output = ''
  const keep = (chunk: Buffer) => {
    output += chunk.toString()
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return { code, output }
}
