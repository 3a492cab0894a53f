import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'
import { findBlocks, readDocument, root } from '../documents.ts'

const document = 'docs/how-to/recipes.md'
const program = join(root, 'packages/cli/bin/tenure.js')

/** How long a test waits for an event that usually happens soon, with slack for a busy machine. */
export const waitOptions = { timeout: 25_000, interval: 20 }

/** The options of tests that wait several times. */
export const slowTest = { timeout: 90_000 }

/** Returns the block in this language below this heading of the document. */
export function documentBlock(heading: string, language: string, nth = 0): string {
  const section = readDocument(document)
    .split(/^## /m)
    .find((text) => text.startsWith(`${heading}\n`))
  const blocks = findBlocks(document, section ?? '').filter(({ info }) => info[0] === language && info[1] !== 'norun')
  const block = blocks[nth]
  if (!block) throw new Error(`${document} has no ${language} block below "${heading}"`)
  return block.code
}

/** A file of an example. */
export function exampleFile(...path: string[]): string {
  return join(root, 'examples', ...path)
}

/** A shell script that runs as one machine. */
export interface Machine {
  readonly child: ChildProcess
  /** Its standard output and standard error. */
  readonly output: { out: string; error: string }
  /** Resolves with the exit code or the signal. */
  readonly ended: Promise<number | string>
  says(text: string): Promise<void>
}

/** A folder with `tenure` on the PATH, in which recipes run. */
export interface RecipeFolder {
  readonly folder: string
  /** Writes a program to the folder. */
  put(name: string, text: string): string
  /** Returns the lines of a file in the folder. */
  lines(name: string): string[]
  /** Runs a recipe as one machine of several. */
  machine(script: string, env?: Record<string, string>): Machine
}

export function newRecipeFolder(env: Record<string, string>): RecipeFolder {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-recipes-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))
  const put = (name: string, text: string) => {
    writeFileSync(join(folder, name), text, { mode: 0o755 })
    return join(folder, name)
  }
  put('tenure', `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TENURE_')))
  const common = { ...clean, PATH: `${folder}:${process.env['PATH'] ?? ''}`, FOLDER: folder, ...env }
  return {
    folder,
    put,
    lines(name) {
      const file = join(folder, name)
      return existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : []
    },
    machine: (script, more = {}) => startMachine(['bash', '-c', script], { cwd: folder, env: { ...common, ...more } }),
  }
}

/** A shell whose script is one command becomes that command, so that signals reach it. */
export function startMachine(
  [program = '', ...args]: readonly string[],
  options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
): Machine {
  const child = spawn(program, args, { ...options, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const output = { out: '', error: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.error += text))
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  onTestFinished(async () => {
    try {
      process.kill(-(child.pid ?? NaN), 'SIGKILL')
    } catch {
      // The whole process group has ended.
    }
    // The supervisor ends its command, and then closes the streams.
    await ended
  })
  return {
    child,
    output,
    ended,
    async says(text) {
      await vi
        .waitUntil(() => `${output.out}${output.error}`.includes(text), waitOptions)
        .catch(() => {
          throw new Error(`the output lacks "${text}":\n${output.out}${output.error}`)
        })
    },
  }
}
