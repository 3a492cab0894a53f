/** The Go client of the election service, against the service as it was built. */
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../documents.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from '../service/serve.ts'
import { runGo } from './run-go.ts'

describeWithPrograms([programs.go, programs.cc], 'the Go package election', () => {
  test(
    'the tests and examples of the Go package election pass under the race detector, against a real service',
    { timeout: 300_000 },
    async () => {
      const service = await serve()
      onTestFinished(() => service.stop())
      const output = await runGo(['test', '-race', '-count=1', '-v', './election/...'], {
        TENURE_TEST_URL: service.url,
        TENURE_TEST_COMMAND: `${process.execPath} ${join(root, 'packages/cli/bin/tenure.js')}`,
      })
      expect(output).not.toContain('--- SKIP')
      expect(output).toMatch(/^--- PASS: ExampleClient_Watch/m)
    },
  )
})
