/** Checks when a command must not be started, for the built command and for mutants of it. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'
import type { SupervisorAnswer, Deadlines, Order } from '../../src/run/protocol.ts'
import { addMs, now } from '../../src/shared/clock.ts'
import { temporaryFolder } from '../tenure.ts'
import { scene } from './scene.ts'

/**
 * Orders a supervisor to start a command that writes a file. Returns the first answer, and whether the file was
 * written.
 */
async function startBy(folder: string, deadlines: Deadlines): Promise<{ answer: SupervisorAnswer; hasRun: boolean }> {
  const file = join(temporaryFolder(), 'ran')
  const stdio = ['ignore', 'ignore', 'inherit', 'ipc'] as const
  const supervisor = spawn(process.execPath, [join(folder, 'dist/supervisor.js'), 'mark', 'jobs'], {
    detached: true,
    stdio: [...stdio],
  })
  onTestFinished(() => void supervisor.kill('SIGKILL'))
  const answers: SupervisorAnswer[] = []
  const answered = (isIt: (answer: SupervisorAnswer) => boolean) =>
    new Promise<SupervisorAnswer>((resolve) => {
      supervisor.on('message', (answer: SupervisorAnswer) => {
        answers.push(answer)
        if (isIt(answer)) resolve(answer)
      })
    })
  await answered(({ type }) => type === 'ready')
  const order: Order = {
    type: 'start',
    run: 1,
    command: 'touch',
    args: [file],
    environment: { PATH: process.env.PATH },
    stdin: 'ignore',
    deadlines,
    graceMs: 60_000,
  }
  const first = answered((answer) => 'run' in answer)
  const gone = answered(({ type }) => type === 'gone' || type === 'not-started')
  supervisor.send(order)
  const answer = await first
  await gone
  const exited = once(supervisor, 'exit')
  supervisor.disconnect()
  await exited
  return { answer, hasRun: existsSync(file) }
}

/** Each check takes a folder with the `dist` and `bin` of the package. */
export const startChecks: Readonly<Record<string, (folder: string) => Promise<void>>> = {
  async 'the supervisor starts nothing when the deadline of the order has passed on one of the two clocks'(folder) {
    const at = now()
    const future = addMs(at, 60_000)
    const past = { ...at, machineMs: at.machineMs - 1 }
    const pastBoot = { ...future, bootMs: at.bootMs - 1 }
    for (const termAt of [past, { ...past, bootMs: future.bootMs }, pastBoot]) {
      // `killAt` is far in the future, so only the check of `termAt` can prevent the start.
      const { answer, hasRun } = await startBy(folder, { termAt, killAt: future })
      assert.deepEqual(answer, { type: 'not-started', run: 1, error: 'its deadline had already passed' })
      assert.equal(hasRun, false)
    }
    const { answer, hasRun } = await startBy(folder, { termAt: future, killAt: future })
    assert.equal(answer.type, 'started')
    assert.equal(hasRun, true)
  },

  async 'tenure run orders no start when it was asked to end after it had decided to run the command'(folder) {
    const { on, run, decided } = await deciding(folder, 'end')
    const code = await run.ended
    const { term, started } = decided()
    assert.equal(term, 1)
    assert.deepEqual(started, [])
    assert.deepEqual(on.lines(), [])
    assert.equal(code, 0)
  },
}

/** Checks that take seconds. */
export const slowStartChecks: typeof startChecks = {
  async 'tenure run orders no start when it was stalled past its lease after it had decided to run the command'(
    folder,
  ) {
    const { on, run, decided } = await deciding(folder, 'stall')
    // The command runs in a later term.
    await on.wrote('begin')
    run.child.kill('SIGTERM')
    await run.ended
    const { term, started } = decided()
    assert.ok(started.length > 0)
    assert.equal(started.includes(term), false, `started in ${started.join(', ')}, stalled in ${term}`)
  },
}

/** Runs `tenure run` and disturbs it between its decision to run the command and its order to start it. */
async function deciding(folder: string, what: 'end' | 'stall') {
  const on = scene()
  const orders = join(on.folder, 'orders')
  const preload = `--import=${pathToFileURL(join(import.meta.dirname, 'stop-before-start.mjs')).href}`
  const env = { NODE_OPTIONS: preload, ORDERS: orders, BEFORE_START: what }
  const run = on.work(['--ttl', '3s'], [], { command: join(folder, 'bin/tenure.js'), env })
  const termsOf = (word: string) =>
    readFileSync(orders, 'utf8')
      .split('\n')
      .flatMap((line) => (line.startsWith(`${word} `) ? Number(line.slice(word.length + 1)) : []))
  const decided = () => {
    const [term] = termsOf('decided')
    if (term === undefined) throw new Error(`tenure run never decided to run the command: ${run.output.error}`)
    return { term, started: termsOf('start') }
  }
  return { on, run, decided }
}
