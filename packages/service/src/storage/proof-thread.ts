import type * as fileSystem from 'node:fs'
import { Worker } from 'node:worker_threads'

/** A write that proves that the disk still accepts writes, and the state that must be found afterwards. */
export interface Proof {
  /** The open file that is written and read. */
  readonly file: number
  readonly sign: { readonly at: number; readonly text: string }
  readonly mark: { readonly at: number; readonly text: string }
  /** Open files, and the paths at which they must still be found. */
  readonly places: readonly { readonly path: string; readonly file: number }[]
}

/** The outcome of a proof: still owned, evidence that the directory belongs to another process, or a failed call. */
export type ProofResult =
  | { readonly result: 'owned' }
  | { readonly result: 'taken over' }
  | { readonly result: 'gone'; readonly path: string }
  | { readonly result: 'failed'; readonly message: string; readonly code: string | undefined }

/** Runs in the thread, where it is passed as source text, so it may use only its arguments. */
export function prove(fs: typeof fileSystem, { file, sign, mark, places }: Proof): ProofResult {
  try {
    fs.writeSync(file, sign.text, sign.at)
    fs.fdatasyncSync(file)
    const found = Buffer.alloc(mark.text.length)
    fs.readSync(file, found, 0, mark.text.length, mark.at)
    if (found.toString() !== mark.text) return { result: 'taken over' }
    for (const { path, file: open } of places) {
      let there
      try {
        there = fs.statSync(path, { bigint: true })
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error
      }
      const ours = fs.fstatSync(open, { bigint: true })
      if (!there || there.dev !== ours.dev || there.ino !== ours.ino) return { result: 'gone', path }
    }
    return { result: 'owned' }
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    return { result: 'failed', message, code }
  }
}

const program = `
const { parentPort } = require('node:worker_threads')
const fs = require('node:fs')
const prove = ${prove.toString()}
parentPort.on('message', (proof) => parentPort.postMessage(prove(fs, proof)))
`
/** Small limits, because the thread keeps no data. */
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, codeRangeSizeMb: 8, stackSizeMb: 1 }

/**
 * A thread that runs a whole proof in one step, however busy the event loop is. On the event loop each call of a proof
 * would wait for its turn, and a busy process would look like a disk that does not answer. It runs one proof at a time.
 */
export class ProofThread {
  #worker: Worker | undefined

  /** Starts the thread in advance, so that the first proof need not wait for it. */
  start(): void {
    this.#worker ??= this.#newWorker()
    this.#worker.unref()
  }

  async prove(proof: Proof): Promise<ProofResult> {
    const worker = (this.#worker ??= this.#newWorker())
    return new Promise((resolve, reject) => {
      const settle = () => {
        worker.off('message', answered)
        worker.off('error', failed)
        worker.off('exit', ended)
        worker.unref()
      }
      const answered = (proven: ProofResult) => {
        settle()
        resolve(proven)
      }
      const failed = (error: Error) => {
        settle()
        reject(error)
      }
      const ended = () => failed(new Error('the thread that checks the directory has ended'))
      worker.on('message', answered)
      worker.on('error', failed)
      worker.on('exit', ended)
      worker.ref()
      worker.postMessage(proof, [])
    })
  }

  /** Call only when no proof is in flight. */
  async stop(): Promise<void> {
    const worker = this.#worker
    this.#worker = undefined
    await worker?.terminate()
  }

  #newWorker(): Worker {
    const worker = new Worker(program, { eval: true, resourceLimits, execArgv: [], env: {}, name: 'directory' })
    const forget = () => {
      if (this.#worker === worker) this.#worker = undefined
    }
    // The next proof starts a new thread.
    worker.on('error', forget)
    worker.on('exit', forget)
    return worker
  }
}
