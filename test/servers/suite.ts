import { appendFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { find } from './find.ts'
import { missingServersVariable } from './report.ts'
import { start, type RunningServer, type ServerKind } from './server.ts'

/**
 * A suite with a server of its own. Where the server cannot be had the suite is skipped, and the run's last lines say
 * so; with `CI=true` it fails.
 */
export function describeWith(kind: ServerKind, name: string, define: (server: () => RunningServer) => void): void {
  const found = find(kind.program)
  return 'path' in found
    ? describeRunning(kind, found.path, name, define)
    : describeMissing(`${kind.name}: ${found.missing}`, name)
}

function describeRunning(kind: ServerKind, path: string, name: string, define: (server: () => RunningServer) => void) {
  describe(name, () => {
    let server: RunningServer | undefined
    beforeAll(async () => {
      server = await start(kind, path)
    })
    afterAll(() => server?.stop())
    define(() => {
      if (!server) throw new Error(`${kind.name} is started by a hook: ask for it in a hook or a test`)
      return server
    })
  })
}

function describeMissing(reason: string, name: string) {
  const report = process.env[missingServersVariable]
  if (report) appendFileSync(report, `${name} needs ${reason}\n`)
  describe(name, () => {
    test.skipIf(process.env['CI'] !== 'true')(`needs ${reason}`, () => {
      throw new Error(reason)
    })
  })
}
