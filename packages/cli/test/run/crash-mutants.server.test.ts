/** Mutants of the supervisor that release too early, or never. Each must fail the check that it names. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { buildMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { passes } from '../../../../test/mutants/passes-check.ts'
import { redis } from '../../../../test/servers/redis.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { crashChecks } from './crash-checks.ts'
import { noOtherUser } from './other-user.ts'

interface CrashMutant extends Mutation {
  readonly caughtBy: string
}

const mutants: readonly CrashMutant[] = [
  {
    name: 'the supervisor releases as soon as tenure is gone',
    file: 'run/supervisor.ts',
    find: '  isOrphan = true\n',
    replace: '  isOrphan = true\n  void crashRelease?.release()\n',
    caughtBy: 'a lease is not released while a process of the command runs that cannot be killed',
  },
  {
    name: 'the supervisor lets the guard act at the end of the pipe',
    file: 'run/crash-release.ts',
    find: "    this.#isEnded = once(this.#pipe, 'close')\n",
    replace: "    this.#isEnded = once(this.#pipe, 'close').then(() => this.#registrations.end())\n",
    caughtBy: 'a lease is not released while a process of the command runs that cannot be killed',
  },
  {
    name: 'the supervisor looks only at the session of the command',
    file: 'run/supervisor.ts',
    find: 'if (crashRelease && !hasSurvivor())',
    replace: 'if (crashRelease && (!hasSurvivor() || isOrphan))',
    caughtBy: 'a lease is not released while a process that left the session of the command runs',
  },
  {
    name: 'the supervisor does not wait for the release',
    file: 'run/supervisor.ts',
    find: 'await crashRelease.release()',
    replace: 'void crashRelease.release()',
    caughtBy: 'a lease is released when tenure is killed',
  },
  {
    name: 'tenure uses the guard of the library, which knows nothing of the command',
    file: 'run/supervision.ts',
    find: '    GuardLink.shared.openPipe = () => this.#guardPipe()\n',
    replace: '    if (Number.isNaN(GuardLink.length)) this.#guardPipe()\n',
    caughtBy: 'a lease is not released while a process of the command runs that cannot be killed',
  },
]

describeWith(redis, 'mutants of the release after a crash', (server) => {
  test.skipIf(noOtherUser).each(mutants)('the crash checks fail if $name', { timeout: 90_000 }, async (mutant) => {
    const command = join(await buildMutant('cli', [mutant]), 'bin/tenure.js')
    const check = crashChecks[mutant.caughtBy] ?? expect.unreachable(`There is no check "${mutant.caughtBy}".`)
    expect(await passes(() => check(command, server().url))).toBe(false)
  })
})
