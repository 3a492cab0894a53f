import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { preload } from '../../../../../test/preload.ts'
import type { LeaseRecord } from '../../../src/engine/lease-store.ts'
import type { Step } from './simulated-disk.ts'

/** What the parent does while the process is paused. The process then continues, or ends if the result is `false`. */
export interface StepHandlers {
  /** A call has changed names under the root, or synced something there. */
  step(step: Step): Promise<boolean>
  /** A call of the store has granted, renewed, or released a lease. */
  told(record: LeaseRecord): Promise<boolean>
}

/** Grants, renews and releases in a separate process, which pauses after every step on the disk. */
export async function runStepByStep(
  library: string,
  root: string,
  directory: string,
  looks: StepHandlers,
): Promise<void> {
  const child = fork(join(import.meta.dirname, 'stepped-candidate.mjs'), [library, directory], {
    stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'ipc'],
    env: {
      ...process.env,
      LD_PRELOAD: preload(join(import.meta.dirname, 'step-by-step.c')),
      STEPS_BELOW: root,
      // Calls that bypass libc would not be observed.
      UV_USE_IO_URING: '0',
    },
  })
  const exited = once(child, 'exit')
  const steps = child.stdio[3] as Socket
  let ended: Error | 'enough' | undefined
  const look = (looked: Promise<boolean>, goOn: () => void) => {
    const end = (why: Error | 'enough') => {
      ended = why
      child.kill('SIGKILL')
    }
    looked.then((goesOn) => (goesOn ? goOn() : end('enough')), end)
  }
  createInterface({ input: steps }).on('line', (line) => {
    const [what = '', path = '', to = ''] = line.split('\t')
    look(looks.step({ what, path, to }), () => steps.write('.'))
  })
  child.on('message', (record: LeaseRecord) => look(looks.told(record), () => child.send('go on')))
  const [code, signal] = (await exited) as unknown[]
  if (ended instanceof Error) throw ended
  if (!ended && code !== 0) throw new Error(`The process ended with ${String(code ?? signal)}.`)
}
